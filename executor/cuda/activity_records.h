#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "executor/gpu/activity/activity.h"

namespace pipesim {

/// Turns CUPTI's buffers into records.
class ActivityReader {
 public:
  /// Reads a completed buffer of `bytes` valid bytes. A buffer with an unreadable record counts one dropped
  /// record.
  void read(const std::uint8_t* buffer, std::size_t bytes);
  void count_dropped(std::uint64_t records) { activity_.dropped += records; }
  /// The records read since the last call.
  [[nodiscard]] CollectedActivity take();

 private:
  template <class Record>
  void add(const Record& record, ActivityKind kind, std::string_view name);
  std::uint32_t number_of(std::string_view name);

  CollectedActivity activity_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  // of activity_.names
};

}  // namespace pipesim

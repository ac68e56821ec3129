#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/gpu/activity/clock_alignment.h"
#include "sim/base/units.h"

namespace pipesim {

/// The activities of a GPU. Set: filling memory with a value.
enum class ActivityKind : std::uint8_t { Kernel, Copy, Set };

/// One kernel, copy or set that ran, as CUPTI's Activity API reports it.
struct ActivityRecord {
  std::uint64_t correlation = 0;   ///< the call that enqueued it; 0: not known
  Nanoseconds start = 0, end = 0;  ///< CUPTI's clock; without times both are 0
  int device = 0;                  ///< as CUDA numbers it
  std::uint32_t stream = 0;        ///< unique within the device's context
  std::uint32_t name = 0;          ///< index into CollectedActivity::names
  ActivityKind kind = ActivityKind::Kernel;
  auto operator<=>(const ActivityRecord&) const = default;
};

/// A call was made between begin_task(external) and end_task().
struct ExternalCorrelation {
  std::uint64_t correlation = 0, external = 0;
  auto operator<=>(const ExternalCorrelation&) const = default;
};

/// The records between a start and a stop, in no order.
struct CollectedActivity {
  std::vector<ActivityRecord> records;
  std::vector<ExternalCorrelation> correlations;
  std::vector<std::string> names;  ///< of kernels as the linker knows them; "copy", "set"
  std::uint64_t dropped = 0;       ///< records that found no room, at least so many
  std::vector<ClockPair> clocks_at_start, clocks_at_stop;
};

/// The records of one task, summarised. Times are of CUPTI's clock.
struct TaskActivity {
  std::uint64_t external = 0;      ///< the id that begin_task() was given
  std::size_t records = 0;         ///< with times
  std::size_t untimed = 0;         ///< without times: those below leave them out
  Nanoseconds begin = 0, end = 0;  ///< first start, last end
  Nanoseconds busy = 0;            ///< length of the union of the records, on all streams
  bool operator==(const TaskActivity&) const = default;
};

/// When each task ran, and which records are missing or have no task.
struct Attribution {
  std::vector<TaskActivity> tasks;    ///< those with a record, by ascending id
  std::size_t records = 0;            ///< different ones
  std::size_t duplicates = 0;         ///< records that came more than once, and were counted once
  std::size_t untimed = 0;            ///< CUPTI could not take their times, or they had not ended
  std::size_t unattributed = 0;       ///< of no task, or of several
  Nanoseconds unattributed_time = 0;  ///< their durations, added up
  std::size_t ambiguous = 0;          ///< calls said to belong to several tasks
  std::uint64_t dropped = 0;          ///< as CUPTI counted them

  /// What is missing: "12 of 4000 records belong to no task (1.2 ms), 5 were dropped"; "" when nothing is.
  [[nodiscard]] std::string gaps() const;
  bool operator==(const Attribution&) const = default;
};

/// Assigns records to tasks by the calls that enqueued them. Neither list needs an order. O(n log n) for n
/// records and correlations.
Attribution attribute(std::span<const ActivityRecord> records,
                      std::span<const ExternalCorrelation> correlations, std::uint64_t dropped);

}  // namespace pipesim

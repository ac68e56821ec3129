#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "search/search.h"

namespace pipesim {

/// The course of a search, as a CSV file for plots:
///
///     seconds,proposals,best,chain
///     0.016,16,0.187634120,0
///     1.021,1311,0.161200000,2
///
/// Wall time, proposals of all chains, the best iteration in seconds, the chain that found it. `best` and
/// `chain` are empty while nothing fits, `chain` also when the best is a baseline that no chain reached.
/// There is a row for every new best, one for every second, and one for the end.
///
/// Rows are written as they come, not under a temporary name: whoever waits for hours wants to look into the
/// file, and a search that is killed leaves all rows but the last few.
class SearchLog {
 public:
  /// Replaces the file. InputError when it can't be written.
  explicit SearchLog(const std::string& path);

  void note(const SearchProgress& progress);
  void finish(const SearchOutcome& outcome);
  /// Why rows are missing, such as "log.csv: can't be written: No space left on device"; else "". A search
  /// goes on without its log.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  void write(double seconds, std::int64_t proposals);
  void put(const std::string& line);

  std::string path_;
  std::ofstream out_;
  Nanoseconds best_ = 0;  // 0: none yet
  std::optional<int> chain_;
  double next_ = 0;  // seconds at which a row is due
  std::string last_, fault_;
};

}  // namespace pipesim

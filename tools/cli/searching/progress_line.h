#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "search/search.h"
#include "tools/cli/base/status_line.h"

namespace pipesim {

/// The text of a search's progress line, such as
///
///     3688 proposals, 123/s, best 153 ms (1.18 x the lower bound), at most 2 min 5 s left
///
/// The time left follows from the part of the budget that runs out first; a search may end sooner. The lower
/// bound is left out when there is none.
std::string progress_text(const SearchProgress& progress, const SearchBudget& budget,
                          std::optional<Nanoseconds> lower_bound);

/// Shows it as a StatusLine; gone with finish().
class ProgressLine {
 public:
  ProgressLine(const Streams& streams, const SearchBudget& budget, std::optional<Nanoseconds> lower_bound);
  void note(const SearchProgress& progress);
  void finish() { line_.clear(); }
  void expect(const SearchBudget& budget, std::optional<Nanoseconds> lower_bound) {
    budget_ = budget;
    lower_bound_ = lower_bound;
  }

 private:
  StatusLine line_;
  SearchBudget budget_;
  std::optional<Nanoseconds> lower_bound_;
};

}  // namespace pipesim

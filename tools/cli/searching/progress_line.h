#pragma once

#include <optional>

#include "search/search.h"
#include "tools/cli/base/status_line.h"

namespace pipesim {

/// Shows the progress of a search as a StatusLine; gone with finish().
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

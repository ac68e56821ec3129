#pragma once

#include <optional>
#include <string>

#include "search/search.h"

namespace pipesim {

/// How far long work is.
struct Progress {
  std::string text;                   ///< for people: "12 of 40 points, about 3 s left"
  std::optional<double> share;        ///< of all the work, or of the time it may take, from 0 to 1
  std::optional<double> best_time_s;  ///< of the best plan so far
};

/// The text of a search's progress line, such as
///
///     3688 proposals, 123/s, best 153 ms (1.18 x the lower bound), at most 2 min 5 s left
///
/// The time left follows from the part of the budget that runs out first; a search may end sooner. The lower
/// bound is left out when there is none.
std::string progress_text(const SearchProgress& progress, const SearchBudget& budget,
                          std::optional<Nanoseconds> lower_bound);
/// The same with the share of the budget that is spent, where it has an end, and the best time.
Progress progress_of(const SearchProgress& progress, const SearchBudget& budget,
                     std::optional<Nanoseconds> lower_bound);

}  // namespace pipesim

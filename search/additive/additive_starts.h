#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "search/additive/additive_costs.h"

namespace pipesim {

/// Strategies by the numbers of their configs, and what they cost.
struct AdditiveStart {
  std::vector<std::size_t> configs;  ///< by operator
  Evaluation evaluation;
};

/// Plans to start a search from: each minimises a sum over units of operators and pairs of units
/// (additive_costs.h), as the exact search of Jia, Lin, Qi, Aiken (ICML 2018, section 5) does over operators.
/// No sum knows what overlaps with what, so there are several, with other weights for transfers and for the
/// synchronisation of weights, with units one after the other or side by side; the simulator tells which is
/// good. Those within a tenth of the best of them and of `first`, which is one of them, the best first.
///
/// Takes as long as some hundreds of proposals of such a search at most, counted in plans and simulations, so
/// that the result depends on the arguments alone, unless `go_on`, asked every now and then, or the thread's
/// deadline ends it early. OutOfTime where there was no time to score `first`.
/// `starts`, `first`: numbers of configs by operator.
std::vector<AdditiveStart> additive_starts(const ConfigSpace& space, const MoveUnits& units,
                                           Evaluator& evaluator,
                                           const std::vector<std::vector<std::size_t>>& starts,
                                           const std::vector<std::size_t>& first,
                                           const std::function<bool()>& go_on);

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "search/additive/additive_costs.h"
#include "search/scored.h"

namespace pipesim {

/// Plans to start a search from. Each minimises a sum over units of operators and pairs of units
/// (additive_costs.h), as the exact search of Jia, Lin, Qi, Aiken (ICML 2018, section 5) does over operators.
/// A sum does not know which tasks overlap. So there are several sums, with different weights for transfers
/// and for the synchronisation of weights, and with units one after the other or side by side; the simulator
/// decides between their plans. `first` is one of the plans. Returns those within a tenth of the best, the
/// best first.
///
/// Takes at most as long as some hundreds of proposals of such a search. That is counted in plans and
/// simulations, so the result depends on the arguments alone, unless `go_on`, called now and then, or the
/// thread's deadline ends it early. OutOfTime when there was no time to score `first`. `starts`, `first`:
/// numbers of configs by operator.
std::vector<ScoredConfigs> additive_starts(const ConfigSpace& space, const MoveUnits& units,
                                           Evaluator& evaluator,
                                           const std::vector<std::vector<std::size_t>>& starts,
                                           const std::vector<std::size_t>& first,
                                           const std::function<bool()>& go_on);

}  // namespace pipesim

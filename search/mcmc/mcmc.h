#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/annealing/annealer.h"
#include "search/annealing/cooling.h"
#include "search/mcmc/moves.h"
#include "search/mcmc/search_state.h"
#include "search/search.h"

namespace pipesim {

struct McmcOptions : AnnealingOptions {
  int chains = 8;
  std::array<Cooling, kGrains> cooling{{{1e-3, 3e-2, 1e-4}, {3e-5, 3e-4, 5e-6}}};  ///< by Grain
  bool additive_starts = true;  ///< see additive/additive_starts.h; never of plans in stages
  /// FlexFlow's search, for comparison: its proposals alone, one chain, always at the hottest temperature of
  /// single operators.
  bool flexflow_moves = false;
  /// The state to continue from, with its own seed and chains. It must come from the same graph, costs,
  /// candidates and starts.
  std::optional<SearchState> resume;
  /// Called between rounds, see Annealer::keep_state().
  std::function<void(const SearchState&, bool last)> keep;
};

/// Markov chain Monte Carlo over a config space: annealed parallel tempering in cycles. Chains at different
/// temperatures run side by side and cool down; at the end of a cycle all end, and new ones start, hot again,
/// from the best so far or from what one of the better half ended with, at equal chance (after Aldous and
/// Vazirani, "Go with the winners", 1994), so that none stays stuck. Between rounds two neighbours in
/// temperature with costs c, d and temperatures S, T exchange them with probability
/// min(1, exp((1/S − 1/T)(c − d))), which leaves the distribution of all chains together as it is for given
/// temperatures (Swendsen and Wang 1986; Geyer 1991).
///
/// Cycles are of two grains. In the first ones repeats of a block change together, so a recurrent network of
/// 500 operators is a space of 15; it is where good valleys are found soon. Then cycles of single operators
/// take turns with these; each grain gets about half of the effort, more while it lowers the cost by 1% a
/// cycle. A model without repeats has single operators only.
///
/// Proposals are drawn from the mixture in moves.h; its rates adapt to what is accepted in a grain's first
/// cycles and stay the same from then on.
///
/// Chains begin at the best of `starts` and at plans that are nearly as good or better, found by minimising
/// sums of costs; each at another one while there are enough.
///
/// cost = time + λ·overflow bytes; λ makes an overflow of 1% of all memory as bad as one iteration of the
/// best start, so chains may cross plans that do not fit; only plans that fit become best.
///
/// With a budget in proposals alone the outcome depends on the seed and the number of chains, never on the
/// threads, nor on whether it was resumed. Where the thread's deadline (sim/base/deadline.h) passes, what was
/// found until then is the outcome, which may be nothing.
SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress);

}  // namespace pipesim

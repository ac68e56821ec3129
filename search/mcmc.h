#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/moves.h"
#include "search/search.h"
#include "search/search_state.h"

namespace pipesim {

/// A strategy to start from, and who made it.
struct SearchStart {
  std::string name;
  Strategy strategy;
};

struct McmcOptions {
  SearchBudget budget;
  std::uint64_t seed = 1;
  int threads = 1;
  int chains = 8;
  /// Temperatures relative to the best cost so far, from the coldest chain to the hottest in equal ratios. At
  /// temperature t, a proposal that is worse by t of the cost is accepted with probability 1/e.
  double coldest = 5e-6, hottest = 3e-4;
  /// FlexFlow's proposals alone, one chain, at `hottest`: what the search is compared with.
  bool flexflow_moves = false;
  /// Goes on from here; seed and chains are the state's. It must come from the same graph, costs, candidates
  /// and starts.
  std::optional<SearchState> resume;
  /// Called between rounds, and at the end with the state after the last whole round.
  std::function<void(const SearchState&, bool last)> keep;
};

/// Markov chain Monte Carlo over a config space with parallel tempering (Swendsen and Wang 1986; Geyer 1991):
/// chains at different temperatures run side by side. Between rounds two neighbours in temperature with costs
/// c, d and temperatures S, T exchange them with probability min(1, exp((1/S − 1/T)(c − d))), which leaves
/// the distribution of all chains together as it is. Colder chains make more proposals a round than hotter
/// ones, which are there to find other valleys, not to search them. Proposals are drawn from the mixture in
/// moves.h; its rates adapt to what is accepted in the first rounds and stay the same from then on. A chain
/// that has not got below its lowest cost for long ends, and a new one starts from the best so far with a few
/// random changes.
///
/// cost = time + λ·overflow bytes; λ makes an overflow of 1% of all memory as bad as one iteration of the
/// best start, so chains may cross plans that do not fit; only plans that fit become best.
///
/// With a budget in proposals alone the outcome depends on the seed and the number of chains, never on the
/// threads, nor on whether it was resumed.
SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress);

}  // namespace pipesim

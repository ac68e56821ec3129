#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/moves.h"
#include "search/search.h"

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
  /// Temperature relative to the start's cost, falling geometrically over a chain to `coldest`: at first a
  /// proposal that is worse by `hottest` of the cost is accepted with probability 1/e in chains from random
  /// configs, one that is worse by `warm` in chains from a baseline or the best so far, which a hot chain
  /// would only destroy.
  double hottest = 0.05, warm = 0.01, coldest = 0.0005;
};

/// Markov chain Monte Carlo over a config space (FlexFlow, MLSys 2019, section 6.2), Metropolis–Hastings
/// against the current state: a proposal of cost c' replaces the current cost c with probability min(1,
/// exp(−(c' − c)/T)). cost = time + λ·overflow bytes; λ makes an overflow of 1% of all memory as bad as one
/// iteration of the start, from the first proposal on, so chains may cross plans that do not fit; only plans
/// that fit become best.
///
/// First a chain from every start and one from random configs share 40% of the budget; then rounds of two
/// chains share the rest, until half the budget has passed without improvement. One goes on from the best so
/// far. The other starts from new random configs if the first random chain came within 10% of the best, else
/// from the best as well. Chains of a round run on `threads` threads; with a budget in proposals alone the
/// outcome depends on the seed, never on the threads.
SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress);

}  // namespace pipesim

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "search/candidates.h"
#include "search/evaluator.h"
#include "search/incremental_evaluator.h"

namespace pipesim {

/// A candidate of each operator.
inline Strategy random_strategy(const CandidateSet& candidates, Rng& rng) {
  Strategy strategy;
  for (std::size_t i = 0; i < candidates.graph().operators().size(); ++i) {
    strategy.push_back(candidates.random(OperatorId(i), rng));
  }
  return strategy;
}

/// Changes a random strategy so many times, one operator after another; each change is scored incrementally
/// and must come out as the whole plan does. Returns how many of the plans lacked memory.
inline int expect_changes_scored_as_in_full(const OperatorGraph& graph, const CostModel& costs,
                                            const PlanOptions& options, const CandidateSet& candidates,
                                            int changes, Rng& rng) {
  Evaluator full(graph, costs, options), oracle(graph, costs, options);
  IncrementalEvaluator incremental(full);
  Strategy strategy = random_strategy(candidates, rng);
  EXPECT_EQ(incremental.start(full.contents().bind(strategy)), oracle.evaluate(strategy));
  int over = 0;
  for (int i = 0; i < changes; ++i) {
    const Strategy other = random_strategy(candidates, rng);
    const std::size_t op = rng.below(strategy.size());
    const ParallelConfig before = std::exchange(strategy[op], other[op]);
    const OperatorId id(op);
    const std::vector<BoundChange> bound{{id, full.contents().bind(id, strategy[op])}};
    const auto found = incremental.propose(bound, INT64_MAX / 4);
    EXPECT_TRUE(found);
    if (!found) return over;
    EXPECT_EQ(*found, oracle.evaluate(strategy));
    over += found->feasible() ? 0 : 1;
    if (rng.below(2) == 0) {
      incremental.accept();
    } else {
      incremental.reject();
      strategy[op] = before;
    }
  }
  return over;
}

}  // namespace pipesim

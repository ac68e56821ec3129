#include "search/incremental_evaluator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/candidates.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// One change after another, each scored as the whole plan is.
TEST(IncrementalEvaluator, ScoresAsInFullWhateverTheRuntime) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=8,layers=1,hidden=64,heads=4,sequence=16,vocab=64");
  const Topology topology = make_topology("p100-4x4:1");
  const CandidateSet candidates(graph, topology);
  for (const char* runtime :
       {"pipesim", "pipesim:updates=together", "pipesim:sharded-sums=whole,sharded-weights=broadcast",
        "pipesim:slice=5us", "pipesim:messages=blocking", "nanotron"}) {
    const CostModel costs(topology, nullptr, parse_runtime(runtime));
    for (const char* sharding : {"none", "zero1"}) {
      SCOPED_TRACE(std::string(runtime) + ", " + sharding);
      PlanOptions options;
      options.state_sharding = parse_state_sharding(sharding);
      for_each_seed(2, [&](Rng& rng) {
        Evaluator full(graph, costs, options), oracle(graph, costs, options);
        IncrementalEvaluator incremental(full);
        Strategy strategy = random_strategy(candidates, rng);
        EXPECT_EQ(incremental.start(full.contents().bind(strategy)), oracle.evaluate(strategy));
        for (int i = 0; i < 10; ++i) {
          const Strategy other = random_strategy(candidates, rng);
          const std::size_t op = rng.below(strategy.size());
          const ParallelConfig before = std::exchange(strategy[op], other[op]);
          const OperatorId id(op);
          const std::vector<BoundChange> changes{{id, full.contents().bind(id, strategy[op])}};
          const auto found = incremental.propose(changes, INT64_MAX / 4);
          ASSERT_TRUE(found);
          EXPECT_EQ(*found, oracle.evaluate(strategy));
          if (rng.below(2) == 0) {
            incremental.accept();
          } else {
            incremental.reject();
            strategy[op] = before;
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace pipesim

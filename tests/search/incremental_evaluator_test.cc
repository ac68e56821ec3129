#include "search/incremental_evaluator.h"

#include <gtest/gtest.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/candidates.h"
#include "tests/search/scored_changes.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// One change after another, each scored as the whole plan is.
TEST(IncrementalEvaluator, ScoresAsInFullWhateverTheRuntime) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=8,layers=1,hidden=64,heads=4,sequence=16,vocab=64,dtype=bfloat16");
  const Topology topology = make_topology("p100-4x4:1");
  const CandidateSet candidates(graph, topology);
  for (const char* runtime :
       {"pipesim", "pipesim:updates=together", "pipesim:sharded-sums=whole,sharded-weights=broadcast",
        "pipesim:slice=5us", "pipesim:interference=0.5", "nanotron", "deepspeed:step-part=3000,buckets=5000",
        "deepspeed:buckets=100,optimizer-kernel=foreach", "torch-eager:optimizer-kernel=single"}) {
    const CostModel costs(topology, nullptr, parse_runtime(runtime));
    for (const char* sharding : {"none", "zero1"}) {
      SCOPED_TRACE(std::string(runtime) + ", " + sharding);
      PlanOptions options;
      options.gradient_type = DataType::BFloat16;
      options.state_sharding = parse_state_sharding(sharding);
      for_each_seed(2, [&](Rng& rng) {
        const int over = expect_changes_scored_as_in_full(graph, costs, options, candidates, 10, rng);
        EXPECT_EQ(over, 0);  // small models fit
      });
    }
  }
}

}  // namespace
}  // namespace pipesim

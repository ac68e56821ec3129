#include "search/planners/pipeline_trials.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "models/zoo/zoo.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

TEST(TryPipelines, JudgesEveryKindOfPipelineBySimulation) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=8,layers=4,hidden=64,heads=4,sequence=16,vocab=100");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 4;
  std::size_t calls = 0;
  const std::vector<PipelineTrial> trials =
      try_pipelines(graph, costs, options, {"gpipe", "1f1b", "interleaved", "zb-v", "chimera"},
                    [&](const PipelineTrial&) { ++calls; });
  EXPECT_EQ(calls, trials.size());
  std::set<std::tuple<std::int32_t, std::int32_t, std::string>> met;
  for (const PipelineTrial& t : trials) {
    met.emplace(t.demand.stages, t.demand.chunks, t.demand.schedule);
    PipelinedStrategy made = gpipe_strategy(graph, costs, t.demand);
    PlanOptions piped = options;
    piped.pipeline = made.pipeline;
    EXPECT_EQ(Evaluator(graph, costs, piped).evaluate(made.strategy), t.evaluation);
  }
  EXPECT_THAT(met, testing::UnorderedElementsAre(
                       std::tuple(1, 1, "gpipe"), std::tuple(2, 1, "gpipe"), std::tuple(4, 1, "gpipe"),
                       std::tuple(2, 1, "1f1b"), std::tuple(4, 1, "1f1b"), std::tuple(4, 2, "interleaved"),
                       std::tuple(8, 4, "interleaved"), std::tuple(8, 2, "interleaved"),
                       std::tuple(16, 4, "interleaved"), std::tuple(4, 2, "zb-v"), std::tuple(8, 2, "zb-v"),
                       std::tuple(2, 1, "chimera"), std::tuple(4, 1, "chimera")));
  EXPECT_TRUE(std::ranges::is_sorted(trials, {}, [](const PipelineTrial& t) {
    return std::tuple(t.evaluation.overflow, t.evaluation.time, t.demand.stages);
  }));
}

}  // namespace
}  // namespace pipesim

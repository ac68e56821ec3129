#include "taskgraph/proofs/known_folding.h"

#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "taskgraph/proofs/find_folding.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct KnownFoldingTest : testing::Test {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=48,layers=2,hidden=512,heads=8,sequence=64,vocab=1024,positions=64");
  const Topology topology = make_topology("dgx-a100:6");
  const CostModel costs{topology};
  const ReplicaPlan plan = plan_in_both(graph, {8, 2, 3}, "1f1b");
  PlanContents contents{graph, costs, plan.options};
  const BoundStrategy bound = contents.bind(plan.strategy);
  KnownFolding known;

  // The operators of the folding. While it is kept, no other folding has any of them.
  BoundStrategy folded(const PlanContents& of, const BoundStrategy& strategy) {
    const std::shared_ptr<const Folding> found = known.of(of, strategy);
    const std::optional<Folding> afresh = find_folding(of, strategy);
    EXPECT_EQ(found != nullptr, afresh.has_value());
    if (!found || !afresh) return {};
    for (std::size_t i = 0; i < strategy.size(); ++i)
      EXPECT_EQ(found->strategy()[i]->config, afresh->strategy()[i]->config);
    for (std::size_t d = 0; d < topology.num_devices(); ++d)
      EXPECT_EQ(found->stands_for(DeviceId(d)), afresh->stands_for(DeviceId(d)));
    return found->strategy();
  }
};

TEST_F(KnownFoldingTest, IsKeptForOtherSchedulesAndRecompute) {
  const BoundStrategy first = folded(contents, bound);
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(folded(contents, bound), first);
  Pipeline other = *plan.options.pipeline;
  other.schedule = "gpipe";
  EXPECT_EQ(folded(contents.with(other, parse_recompute("full")), bound), first);
}

TEST_F(KnownFoldingTest, IsFoundAnewForOtherPlans) {
  const BoundStrategy first = folded(contents, bound);
  ASSERT_FALSE(first.empty());
  // Other replicas of the same stages.
  const ReplicaPlan other = plan_in_both(graph, {8, 2, 3}, "1f1b");
  Strategy strategy = other.strategy;
  for (ParallelConfig& config : strategy) std::reverse(config.devices.begin(), config.devices.end());
  const BoundStrategy reversed = folded(contents, contents.bind(strategy));
  EXPECT_NE(reversed, first);
  // Weight versions, which no folding has.
  Pipeline pipeline = *plan.options.pipeline;
  pipeline.schedule = "pipedream";
  EXPECT_TRUE(folded(contents.with(pipeline, {}), bound).empty());
  EXPECT_NE(folded(contents, bound), reversed);
  // After bound operators were forgotten, even at the same addresses.
  const BoundStrategy before = folded(contents, bound);
  ASSERT_TRUE(contents.forget_plans(Bytes(0)));
  EXPECT_NE(folded(contents, bound), before);
}

}  // namespace
}  // namespace pipesim

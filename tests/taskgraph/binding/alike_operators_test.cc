#include "taskgraph/binding/alike_operators.h"

#include <gmock/gmock.h>

#include "models/zoo/zoo.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Gt;

void expect_equal(const PassWork& a, const PassWork& b) {
  EXPECT_EQ(a.present, b.present);
  EXPECT_EQ(a.durations, b.durations);
  ASSERT_EQ(a.stages(), b.stages());
  EXPECT_EQ(a.waits, b.waits);
  ASSERT_EQ(a.exchanges.size(), b.exchanges.size());
  for (std::size_t i = 0; i < a.exchanges.size(); ++i) {
    EXPECT_EQ(a.exchanges[i].step, b.exchanges[i].step);
    EXPECT_EQ(a.exchanges[i].shards, b.exchanges[i].shards);
    EXPECT_EQ(a.exchanges[i].task.duration, b.exchanges[i].task.duration);
  }
}

// What the contents bind is what bind() makes of this very operator.
TEST(AlikeOperators, AreBoundAlike) {
  int shared = 0;
  for_each_seed(60, [&](Rng& rng) {
    const OperatorGraph graph = make_zoo_model(small_models[rng.below(std::size(small_models))]);
    const std::vector<OperatorId> first = first_alike(graph);
    const Topology topology = make_topology("levels:2@10GB/s,2@1GB/s@5us");
    const CostModel costs(topology);
    PlanContents contents(graph, costs, {});
    CommunicationPrices prices(costs);
    LayoutTable layouts;
    for (std::size_t i = 0; i < graph.operators().size(); ++i) {
      const OperatorId op(i);
      shared += first[i] == op ? 0 : 1;
      const ParallelConfig config = random_config(graph.op(op), rng, topology.num_devices(), 4);
      const BoundOperator& bound = *contents.bind(op, config);
      const BoundOperator expected = bind(graph, op, config, prices, layouts);
      EXPECT_EQ(bound.op, &graph.op(op));
      EXPECT_EQ(bound.config, config);
      expect_equal(bound.forward, expected.forward);
      expect_equal(bound.backward_input, expected.backward_input);
      expect_equal(bound.backward_weight, expected.backward_weight);
      EXPECT_EQ(bound.loads, expected.loads);
      EXPECT_EQ(bound.shard_of_device, expected.shard_of_device);
      ASSERT_EQ(bound.memory.size(), expected.memory.size());
      for (std::size_t k = 0; k < bound.memory.size(); ++k) {
        EXPECT_EQ(bound.memory[k].outputs, expected.memory[k].outputs);
        EXPECT_EQ(bound.memory[k].saved, expected.memory[k].saved);
        EXPECT_EQ(bound.memory[k].input_copy, expected.memory[k].input_copy);
        EXPECT_EQ(bound.memory[k].input_gradients, expected.memory[k].input_gradients);
      }
      for (std::size_t u = 0; u < bound.data_layout.size(); ++u) {
        if (!bound.data_layout[u].valid()) continue;
        EXPECT_EQ(contents.layouts()[bound.data_layout[u]], layouts[expected.data_layout[u]]);
        EXPECT_EQ(contents.layouts()[bound.gradient_layout[u]], layouts[expected.gradient_layout[u]]);
      }
    }
  });
  EXPECT_THAT(shared, Gt(100));
}

TEST(AlikeOperators, OfRepeatedBlocksAreFound) {
  const OperatorGraph graph = make_zoo_model("resnet50:batch=8,image=64");
  std::vector<OperatorId> distinct = first_alike(graph);
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  EXPECT_THAT(graph.operators().size(), Gt(2 * distinct.size()));
}

}  // namespace
}  // namespace pipesim

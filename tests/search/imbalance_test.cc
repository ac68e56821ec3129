#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/candidates.h"
#include "search/evaluator.h"
#include "search/incremental_evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/moving/expert_loads.h"
#include "tests/search/scored_changes.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kEightExperts =
    "mixtral-8x7b:batch=8,layers=2,hidden=256,heads=4,kv_heads=4,vocab=64,sequence=64,ffn=512";

struct UnevenCase {
  UnevenCase(const std::string& model, const char* recipe, const char* imbalance)
      : graph(make_zoo_model(model)) {
    RecipeStrategy made = expand_recipe(parse_recipe(recipe), RecipeModel(graph), topology);
    made.apply_to(options);
    options.imbalance = parse_imbalance(imbalance);
    strategy = std::move(made.strategy);
  }
  OperatorGraph graph;
  Topology topology = make_topology("dgx-h100:1");
  CostModel costs{topology};
  PlanOptions options;
  Strategy strategy;
};

// Where each device has one expert, all with a load of 1.5: as if every expert took so many tokens.
TEST(Imbalance, OfOneExpertADeviceIsACapacityOfTheFullest) {
  const UnevenCase uneven(kEightExperts, "dp8,ep8,mbs1", "1.5"),
      larger(std::string(kEightExperts) + ",capacity_factor=1.5", "dp8,ep8,mbs1", "1");
  const PlanContents contents(uneven.graph, uneven.costs, uneven.options),
      of_larger(larger.graph, larger.costs, larger.options);
  const BoundStrategy bound = contents.bind(uneven.strategy), expected = of_larger.bind(larger.strategy);
  int operators = 0, transfers = 0;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const OperatorId op(i);
    if (contents.loads().factors(op).slots < 0) continue;
    ++operators;
    for (const auto pass :
         {&BoundOperator::forward, &BoundOperator::backward_input, &BoundOperator::backward_weight}) {
      const PassWork &a = bound[i]->*pass, &b = expected[i]->*pass;
      ASSERT_EQ(a.durations.size(), b.durations.size());
      for (std::size_t k = 0; k < a.durations.size(); ++k)
        EXPECT_LE(std::abs(a.durations[k] - b.durations[k]), 1);
    }
    for (std::size_t k = 0; k < bound[i]->memory.size(); ++k) {
      EXPECT_EQ(bound[i]->memory[k].outputs, expected[i]->memory[k].outputs);
      EXPECT_EQ(bound[i]->memory[k].input_gradients, expected[i]->memory[k].input_gradients);
    }
  }
  for (std::size_t t = 0; t < uneven.graph.tensors().size(); ++t) {
    const TensorId tensor(t);
    if (contents.loads().dimension(tensor) < 0) continue;
    const UseRef maker = contents.backward().producing_use(tensor),
                 reader = uneven.graph.consumers(tensor).front();
    const LayoutId from = data_layout(maker, bound), from_larger = data_layout(maker, expected);
    const CommunicationPlan &a = contents.transfer_plan(tensor, std::span(&from, 1),
                                                        data_layout(reader, bound), Moved::Data),
                            &b = of_larger.transfer_plan(tensor, std::span(&from_larger, 1),
                                                         data_layout(reader, expected), Moved::Data);
    ASSERT_EQ(a.tasks.size(), b.tasks.size());
    for (std::size_t i = 0; i < a.tasks.size(); ++i) {
      EXPECT_EQ(a.tasks[i].size, b.tasks[i].size);
      EXPECT_EQ(a.tasks[i].duration, b.tasks[i].duration);
      ++transfers;
    }
    EXPECT_EQ(a.received, b.received);
  }
  EXPECT_EQ(operators, 8);
  EXPECT_GE(transfers, 4);
}

TEST(Imbalance, TakesTimeAndMemoryWhereExpertsAreApart) {
  for (const char* recipe : {"dp8,ep8,mbs1", "dp8,ep4,mbs1", "tp2,dp4,ep4,etp1,sp,mbs2"}) {
    Nanoseconds last = 0;
    Bytes most;
    for (const char* imbalance : {"1", "1.1", "1.5", "2", "3", "4"}) {
      const UnevenCase c(kEightExperts, recipe, imbalance);
      Evaluator evaluator(c.graph, c.costs, c.options);
      const Evaluated found = evaluator.evaluate(c.strategy, {.peaks = true});
      EXPECT_GE(found.cost->time, last) << recipe << " " << imbalance;
      EXPECT_GE(found.peaks[0].peak, most) << recipe << " " << imbalance;
      last = found.cost->time;
      most = found.peaks[0].peak;
    }
    const UnevenCase even(kEightExperts, recipe, "1");
    Evaluator evaluator(even.graph, even.costs, even.options);
    EXPECT_LT(evaluator.evaluate(even.strategy).time, last);
  }
  // Where a device has all experts, only the mean counts.
  const UnevenCase even(kEightExperts, "dp8,mbs1", "1"), uneven(kEightExperts, "dp8,mbs1", "4");
  Evaluator a(even.graph, even.costs, even.options), b(uneven.graph, uneven.costs, uneven.options);
  EXPECT_EQ(a.evaluate(even.strategy), b.evaluate(uneven.strategy));
}

// A device holds two neighbours of the list; the pair of 1.5 and 1.2 is the fullest.
TEST(Imbalance, OfAListIsThatOfTheFullestDevice) {
  const UnevenCase list(kEightExperts, "dp8,ep4,mbs1", "1.5,1.2,1,0.3");
  const ExpertLoads loads(list.graph, list.options.imbalance);
  for (std::size_t i = 0; i < list.strategy.size(); ++i) {
    const OperatorId op(i);
    const TokenLoad load = loads.of(op, list.graph.op(op), list.strategy[i]);
    EXPECT_DOUBLE_EQ(load.times, loads.factors(op).slots < 0 ? 1 : 1.35) << list.graph.op(op).name;
  }
}

// Limits of memory that some plans exceed, so that evaluations tell it.
TEST(Imbalance, OfChangedPlansIsEvaluatedAsInFull) {
  const OperatorGraph graph = make_zoo_model(
      "mixtral-8x7b:batch=8,layers=1,hidden=64,heads=4,kv_heads=4,vocab=32,sequence=16,ffn=64");
  TopologyParts parts = make_topology("dgx-a100:1").parts();
  for (DeviceKind& kind : parts.kinds) {
    kind.memory = Bytes(1'000'000);
    kind.memory_overhead = {kind.memory, Bytes(0), Bytes(50'000), 0};
  }
  const Topology topology(std::move(parts));
  const CostModel costs(topology);
  const CandidateSet candidates(graph, topology);
  PlanOptions options;
  options.imbalance = parse_imbalance("2.5");
  int over = 0;
  for_each_seed(4, [&](Rng& rng) {
    over += expect_changes_scored_as_in_full(graph, costs, options, candidates, 20, rng);
  });
  EXPECT_GT(over, 0);
}

}  // namespace
}  // namespace pipesim

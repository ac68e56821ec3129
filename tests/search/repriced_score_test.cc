#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "search/recipes/recipe.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "topologies/changes/topology_changes.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct RepricedFigure {
  const char* path;
  std::array<const char*, 3> values;
};
constexpr std::array<RepricedFigure, 8> kRepricedFigures{{{"device.rate", {"x0.5", "x1.1", "x3"}},
                                                          {"device.memory_bandwidth", {"x0.5", "x1.1", "x3"}},
                                                          {"device.launch_overhead", {"x0.1", "x0.9", "x7"}},
                                                          {"device.memory", {"1 MB", "3 MB", "x2"}},
                                                          {"intra_node.bandwidth", {"x0.05", "x1.1", "x8"}},
                                                          {"intra_node.latency", {"x0.1", "x0.9", "x20"}},
                                                          {"inter_node.bandwidth", {"x0.05", "x1.1", "x8"}},
                                                          {"inter_node.latency", {"x0.1", "x0.9", "x20"}}}};

// Frameworks take nothing, so that memory may be as small as these models.
Topology without_overhead(const char* name) {
  TopologyParts parts = make_topology(name).parts();
  for (DeviceKind& kind : parts.kinds) kind.memory_overhead = {};
  return Topology(std::move(parts));
}

// The topology with one to three other figures.
Topology with_other_figures(const Topology& topology, Rng& rng) {
  TopologyParts parts = topology.parts();
  for (std::uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
    const RepricedFigure& figure = kRepricedFigures[rng.below(kRepricedFigures.size())];
    change_topology(parts, figure.path, figure.values[rng.below(figure.values.size())]);
  }
  return Topology(std::move(parts));
}

struct RepricedCount {
  int scored = 0, repriced = 0;
};

// One evaluator after the other: it scores a plan with other figures as long as it can. Each time a new
// evaluator must say the same.
void expect_same_scores(const OperatorGraph& graph, const Topology& topology, const Runtime& runtime,
                        const RandomPipeline& plan, std::size_t fold_from, Rng& rng, RepricedCount& count) {
  struct Prices {
    Topology topology;
    CostModel costs;
    Prices(Topology t, const Runtime& r) : topology(std::move(t)), costs(topology, nullptr, r) {}
  };
  std::deque<Prices> all;
  std::optional<Evaluator> evaluator;
  constexpr int kPoints = 5;
  for (int point = 0; point < kPoints; ++point) {
    const Prices& now = all.emplace_back(point == 0 ? topology : with_other_figures(topology, rng), runtime);
    ++count.scored;
    if (evaluator) {
      const PlanContents* before = &evaluator->contents();
      evaluator = std::move(*evaluator).with(now.costs);
      if (&evaluator->contents() == before) ++count.repriced;
    } else {
      evaluator.emplace(graph, now.costs, plan.options, fold_from);
    }
    Evaluator fresh(graph, now.costs, plan.options, fold_from);
    const EvaluationRequest wanted{.peaks = true};
    const Evaluated expected = fresh.evaluate(plan.strategy, wanted);
    const Evaluated scored = evaluator->evaluate(plan.strategy, wanted);
    ASSERT_EQ(scored.cost, expected.cost) << "point " << point;
    ASSERT_EQ(scored.peaks, expected.peaks) << "point " << point;
    // And once more as any other: nothing is left of the prices before.
    ASSERT_EQ(evaluator->evaluate(plan.strategy), *expected.cost) << "point " << point;
  }
}

class RepricedScore : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, RepricedScore, testing::ValuesIn(small_models), ModelWord());

TEST_P(RepricedScore, IsThatOfANewEvaluator) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  RepricedCount count;
  for (const char* name : {"p100-4x4:2", "dgx-a100:2,gpus=4", "levels:2@10GB/s,3@0.1GB/s"}) {
    const Topology topology = without_overhead(name);
    for_each_seed(GetParam() == std::string_view("resnet50:batch=8,image=64") ? 4 : 12, [&](Rng& rng) {
      RandomPipeline plan = random_pipeline(graph, rng, topology);
      const std::uint64_t kind = rng.below(4);
      if (kind == 0) {
        plan.options.pipeline.reset();
        plan.strategy = random_strategy(graph, rng, topology.num_devices(), 6);
      }
      if (kind < 2) plan.options.state_sharding = random_state_sharding(rng);
      if (rng.below(3) == 0) plan.options.recompute = parse_recompute("full");
      if (illegal(graph, plan.strategy, plan.options, topology)) return;
      const Runtime runtime = rng.below(4) == 0 ? busy_runtime() : Runtime();
      expect_same_scores(graph, topology, runtime, plan, rng.below(2) == 0 ? 0 : 20'000, rng, count);
    });
  }
  // A third of the points, at least, are scored without a new evaluator.
  EXPECT_GT(3 * count.repriced, count.scored) << count.repriced << " of " << count.scored;
}

// Plans as people use them, folded and with as many microbatches as matter.
TEST(RepricedScore, OfRecipes) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=16,layers=4,hidden=512,heads=8,sequence=64,vocab=1024,positions=64");
  const Topology topology = without_overhead("dgx-a100:2");
  const RecipeModel model(graph);
  RepricedCount count;
  for (const char* text : {"dp16,zero1", "tp4,dp4,mbs4", "tp2,pp2,dp4,zero1,mbs4", "tp8,pp2,mbs16",
                           "dp16,zero3", "pp4,dp4,mbs4"}) {
    SCOPED_TRACE(text);
    for_each_seed(4, [&](Rng& rng) {
      const Recipe recipe = completed(parse_recipe(text), 16, &model);
      RecipeStrategy made = expand_recipe(recipe, model, topology);
      RandomPipeline plan{made.strategy, {}};
      made.apply_to(plan.options);
      plan.options.microbatches = 16;
      expect_same_scores(graph, topology, Runtime(), plan, 0, rng, count);
    });
  }
  EXPECT_GT(2 * count.repriced, count.scored) << count.repriced << " of " << count.scored;
}

// What can't be priced anew in place is found afresh.
TEST(RepricedScore, NotOfOtherDevicesOrRuntimes) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology small = make_topology("p100-4x4:1"), large = make_topology("p100-4x4:2"),
                 slow = make_topology("p100-4x4:1+slow:gpu3=2");
  const CostModel costs(small), other_devices(large), one_slow(slow),
      other_runtime(small, nullptr, parse_runtime("megatron"));
  Strategy strategy = data_parallel(graph, 4);
  for (const CostModel* other : {&other_devices, &one_slow, &other_runtime}) {
    Evaluator evaluator(graph, costs, {});
    evaluator.evaluate(strategy);
    const PlanContents* before = &evaluator.contents();
    Evaluator priced = std::move(evaluator).with(*other);
    EXPECT_NE(&priced.contents(), before);
    EXPECT_EQ(priced.evaluate(strategy), Evaluator(graph, *other, {}).evaluate(strategy));
  }
}

}  // namespace
}  // namespace pipesim

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/proofs/find_folding.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kGpt = "gpt:batch=48,layers=2,hidden=512,heads=8,sequence=64,vocab=1024,positions=64";
constexpr const char* kLlama =
    "llama:batch=48,layers=2,hidden=512,heads=8,kv_heads=8,vocab=1024,sequence=64,ffn=512";

constexpr const char* kMixtral =
    "mixtral-8x7b:batch=16,layers=2,hidden=512,heads=8,kv_heads=8,vocab=1024,sequence=64,ffn=512";

// No plan fits, so that evaluations tell what all devices hold, and how many communicators they are in.
Topology without_memory(const std::string& name) {
  TopologyParts parts = make_topology(name).parts();
  for (DeviceKind& kind : parts.kinds) {
    kind.memory = Bytes(1'000'000);
    kind.memory_overhead = {kind.memory, Bytes(0), Bytes(1000), 0};
  }
  return Topology(std::move(parts));
}

// Checks the score of a folded plan; how many of the plan's devices were simulated, as a share.
double folded_share(const OperatorGraph& graph, const CostModel& costs, const ReplicaPlan& plan) {
  Evaluator evaluator(graph, costs, plan.options, 0);
  const BoundStrategy bound = evaluator.contents().bind(plan.strategy);
  const Evaluation whole = *evaluator.evaluate(bound, {.extent = Extent::All}).cost;
  const Evaluated score = evaluator.evaluate(bound, {.part = Labels::Leave});
  EXPECT_EQ(score.cost, whole);
  std::set<std::size_t> simulated, used;
  const TaskDag& dag = score.part->dag();
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    for (const LaneUse use : dag.lanes(TaskId(t))) {
      if (use.lane.index() < costs.topology().num_devices()) simulated.insert(use.lane.index());
    }
  }
  for (const BoundOperator* b : bound) {
    for (const DeviceId d : b->config.devices) used.insert(d.index());
  }
  return static_cast<double>(simulated.size()) / static_cast<double>(used.size());
}

// Gradients of norms go over trees of nodes, which tell nodes apart.
TEST(FoldedScore, OfEverySchedule) {
  const OperatorGraph graph = make_zoo_model(kGpt);
  const Topology topology = without_memory("dgx-a100:6");
  const CostModel costs(topology);
  for (const char* schedule :
       {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2", "zb-v", "chimera", "dualpipe"}) {
    for (const char* recompute : {"none", "full"}) {
      for (const std::int32_t microbatches : {2, 16}) {
        if (microbatches > 2 && sanitized) continue;
        if (microbatches == 2 && schedule == std::string_view("dualpipe")) continue;
        SCOPED_TRACE(fmt::format("{}, {} microbatches, recompute {}", schedule, microbatches, recompute));
        ReplicaPlan plan = plan_in_both(graph, {8, 2, 3}, schedule);
        plan.options.microbatches = microbatches;
        plan.options.recompute = parse_recompute(recompute);
        if (plan.options.recompute.kind == Recompute::Kind::None)
          plan.options.gradient_reduction = GradientReduction::AfterSteps;
        EXPECT_LT(folded_share(graph, costs, plan), 1.0);
      }
    }
  }
}

TEST(FoldedScore, OfManyShapesIsTheSame) {
  const OperatorGraph graph = make_zoo_model(kLlama);
  int folded = 0;
  for (const char* name : {"dgx-a100:6", "levels:4@100GB/s,6@5GB/s"}) {
    const Topology topology = without_memory(name);
    const CostModel costs(topology);
    for (const ReplicaShape shape :
         {ReplicaShape{8, 1, 6}, {4, 2, 6}, {2, 2, 12}, {4, 4, 3}, {4, 2, 3}, {4, 1, 6}}) {
      for (const char* schedule : {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-v"}) {
        for (const std::int32_t more : {0, 5}) {
          SCOPED_TRACE(fmt::format("{}, {} x {} x {}, {}, {} more", name, shape.tensor, shape.pipeline,
                                   shape.data, schedule, more));
          ReplicaPlan plan = plan_in_both(graph, shape, schedule, more);
          if (illegal(graph, plan.strategy, plan.options, topology)) continue;
          folded += folded_share(graph, costs, plan) < 1 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(folded, 10);
}

// Random recipes: how many of them are folded.
int folded_recipes(const char* zoo_model, const char* imbalance = "1") {
  const OperatorGraph graph = make_zoo_model(zoo_model);
  const RecipeModel model(graph);
  int folded = 0;
  for (const char* name : {"dgx-a100:2", "levels:4@100GB/s,4@5GB/s"}) {
    const Topology topology = without_memory(name);
    const CostModel costs(topology);
    for_each_seed(12, [&](Rng& rng) {
      const Recipe recipe = random_recipe(model, 16, rng);
      SCOPED_TRACE(recipe.str());
      RecipeStrategy made = expand_recipe(recipe, model, topology);
      ReplicaPlan plan{std::move(made.strategy), {}};
      plan.options.microbatches = 4;
      plan.options.imbalance = parse_imbalance(imbalance);
      made.apply_to(plan.options);
      folded += folded_share(graph, costs, plan) < 1 ? 1 : 0;
    });
  }
  return folded;
}

TEST(FoldedScore, OfRecipesIsTheSame) { EXPECT_GT(folded_recipes(kLlama), 0); }

// Experts on a mesh of their own, with and without pipelines.
TEST(FoldedScore, OfExpertRecipesIsTheSame) { EXPECT_GT(folded_recipes(kMixtral), 0); }
TEST(FoldedScore, OfUnevenExpertsIsTheSame) {
  EXPECT_GT(folded_recipes(kMixtral, "1.7"), 0);
  EXPECT_GT(folded_recipes(kMixtral, "2,1,0.5,0.5"), 0);
}

// Random pipelines; whether any of their devices are folded does not matter.
TEST(FoldedScore, OfRandomPlansIsTheSame) {
  for (const char* model : {small_models[0], kGpt}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = without_memory("levels:2@10GB/s,3@0.1GB/s");
    const CostModel costs(topology);
    for_each_seed(20, [&](Rng& rng) {
      RandomPipeline p = random_pipeline(graph, rng, topology);
      const ReplicaPlan plan{p.strategy, p.options};
      folded_share(graph, costs, plan);
    });
  }
}

}  // namespace
}  // namespace pipesim

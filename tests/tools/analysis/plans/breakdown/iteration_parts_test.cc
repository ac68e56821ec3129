#include <gtest/gtest.h>

#include <numeric>

#include "models/zoo/zoo.h"
#include "search/recipes/expand_recipe.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tools/analysis/plans/breakdown/iteration_parts.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/render/plans/breakdown_text.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

double sum_of(const IterationParts& parts) {
  return parts.compute + parts.recompute + parts.idle +
         std::accumulate(parts.exposed.begin(), parts.exposed.end(), 0.0);
}

// Whatever the recipe: no part is below 0, and together they are the iteration.
TEST(IterationParts, AddUpToTheIteration) {
  const Topology topology = make_topology("dgx-a100:1");
  const OperatorGraph graph =
      make_zoo_model("llama:batch=8,sequence=32,layers=8,hidden=64,heads=8,kv_heads=4,ffn=128,vocab=512");
  const RecipeModel model(graph);
  const CostModel costs(topology);
  for_each_seed(20, [&](Rng& rng) {
    Recipe recipe = random_recipe(model, 8, rng);
    PlanOptions options;
    options.microbatches = 8;
    RecipeStrategy made = expand_recipe(recipe, model, topology);
    made.apply_to(options);
    Evaluator evaluator(graph, costs, options);
    const PlanReport r = report_plan(evaluator, evaluator.contents().bind(made.strategy));
    const IterationParts parts = iteration_parts(r);
    EXPECT_NEAR(sum_of(parts), parts.iteration, 1e-9 * 8);
    EXPECT_GE(parts.compute, 0);
    EXPECT_GE(parts.idle, 0) << recipe.str();
    EXPECT_EQ(parts.recompute > 0, recipe.recompute.any()) << recipe.str();
    for (const double exposed : parts.exposed) EXPECT_GE(exposed, 0);
  });
}

IterationParts parts_of(double compute, double recompute, double idle, double tensor, double pipeline) {
  IterationParts parts;
  parts.compute = compute;
  parts.recompute = recompute;
  parts.idle = idle;
  parts.exposed[static_cast<std::size_t>(CommunicationCause::Tensor)] = tensor;
  parts.exposed[static_cast<std::size_t>(CommunicationCause::Pipeline)] = pipeline;
  parts.iteration = sum_of(parts);
  return parts;
}

TEST(IterationParts, SayWhyOneIsShorter) {
  EXPECT_EQ(because(parts_of(40, 0, 12, 8, 0), parts_of(40, 0, 4, 8, 0)),
            "because devices idle 8 s less (7.7 % of the iteration instead of 20.0 %)");
  EXPECT_EQ(
      because(parts_of(40, 10, 12, 8, 1), parts_of(40.5, 0, 4, 5, 3)),
      "because 10 s less is computed again, devices idle 8 s less (7.6 % of the iteration instead of 16.9 "
      "%) and 3 s less of tensor communication is exposed, although 2 s more of pipeline communication is "
      "exposed");
  EXPECT_EQ(because(parts_of(50, 0, 0, 0, 0), parts_of(40, 0, 2, 0, 0)),
            "because computing takes 10 s less, although devices idle 2 s more (4.8 % of the iteration "
            "instead of 0.0 %)");
  EXPECT_EQ(because(parts_of(40, 0, 4, 8, 0), parts_of(40, 0, 4, 8, 0)), "");
  EXPECT_EQ(because(parts_of(40, 0, 4, 8, 0), parts_of(40, 0, 12, 8, 0)), "");
}

TEST(IterationParts, WithoutDevicesThatComputeAllIsIdle) {
  const IterationParts parts = iteration_parts(1'000'000'000, {0, 0}, {}, {{}, {}});
  EXPECT_EQ(parts.idle, 1);
  EXPECT_EQ(parts.compute, 0);
}

}  // namespace
}  // namespace pipesim

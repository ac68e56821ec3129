#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/plans/pipeline_report.h"
#include "tools/analysis/plans/plan_report.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// What few microbatches on few devices tell is what all of them do.
TEST(FoldedReport, IsThatOfAllTasks) {
  const OperatorGraph graph =
      make_zoo_model("llama:layers=4,hidden=128,heads=8,kv_heads=4,vocab=96,sequence=32,ffn=128,batch=8");
  const Topology topology = make_topology("dgx-h100:2");
  const CostModel costs(topology);
  const RecipeModel model(graph);
  int folded = 0, steady = 0;
  for_each_seed(40, [&](Rng& rng) {
    const Recipe recipe = random_recipe(model, 16, rng);
    SCOPED_TRACE(recipe.str());
    const RecipeStrategy made = expand_recipe(recipe, model, topology);
    PlanOptions options;
    options.microbatches = 16;
    made.apply_to(options);
    Evaluator evaluator(graph, costs, options, 0);
    const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
    constexpr std::size_t kColumns = 60;
    const PlanReport whole = report_plan_in_full(evaluator, strategy);
    const auto whole_pipeline = report_pipeline(*whole.part, strategy, whole.memory, kColumns);
    const PlanReport part = report_plan(evaluator, strategy);
    folded += part.simulated_devices < 16 ? 1 : 0;
    steady += part.simulated_microbatches > 0 ? 1 : 0;
    EXPECT_EQ(part.iteration_time, whole.iteration_time);
    EXPECT_EQ(part.makespan, whole.makespan);
    EXPECT_EQ(part.compute, whole.compute);
    EXPECT_EQ(part.recompute, whole.recompute);
    EXPECT_EQ(part.communication, whole.communication);
    EXPECT_EQ(part.by_cause, whole.by_cause);
    EXPECT_EQ(part.memory, whole.memory);
    EXPECT_EQ(part.memory_of_stages, whole.memory_of_stages);
    EXPECT_EQ(part.critical.compute + part.critical.communication + part.critical.waiting, part.makespan);
    EXPECT_EQ(part.recipe, whole.recipe);
    const auto pipeline = report_pipeline(*part.part, strategy, part.memory, kColumns);
    ASSERT_EQ(pipeline.has_value(), whole_pipeline.has_value());
    if (!pipeline) return;
    EXPECT_EQ(pipeline->stages, whole_pipeline->stages);
    EXPECT_DOUBLE_EQ(pipeline->idle, whole_pipeline->idle);
  });
  EXPECT_GT(folded, 3);
  EXPECT_GT(steady, 3);
}

// Durations of all devices count, whatever part was simulated for the report.
TEST(FoldedReport, CountsTheDurationsOfAllDevices) {
  const OperatorGraph graph =
      make_zoo_model("llama:layers=4,hidden=128,heads=8,kv_heads=8,vocab=96,sequence=32,ffn=128,batch=2");
  const Topology topology = make_topology("dgx-h100:2");
  const CostModel costs(topology);
  const RecipeModel model(graph);
  const RecipeStrategy made = expand_recipe(parse_recipe("tp4,pp2,dp2,mbs1"), model, topology);
  PlanOptions options;
  options.microbatches = 16;
  made.apply_to(options);
  Evaluator evaluator(graph, costs, options, 0);
  const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
  const PlanReport part = report_plan(evaluator, strategy);
  EXPECT_LT(part.simulated_devices, 16);
  const CalibrationUse of_part = calibration_use(evaluator, strategy);
  report_plan_in_full(evaluator, strategy);
  const CalibrationUse of_all = calibration_use(evaluator, strategy);
  EXPECT_EQ(of_part.tasks, of_all.tasks);
  EXPECT_EQ(of_part.share, of_all.share);
  ASSERT_EQ(of_part.guesses.size(), of_all.guesses.size());
  for (std::size_t i = 0; i < of_all.guesses.size(); ++i)
    EXPECT_EQ(of_part.guesses[i].key, of_all.guesses[i].key);
}

// The report names the devices of groups by their real names, too.
TEST(FoldedReport, NamesRealDevices) {
  const Outcome outcome =
      pipesim_run({"simulate", "--model",
                   "llama:layers=12,hidden=128,heads=8,kv_heads=8,vocab=96,sequence=32,ffn=128,batch=64",
                   "--topology", "dgx-h100:2", "--recipe", "tp8,pp2", "--runtime", "pipesim"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr(" devices, from which all others follow"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("over 8 devices, node1.gpu0 to node1.gpu7"));
}

}  // namespace
}  // namespace pipesim

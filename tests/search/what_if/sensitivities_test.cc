#include "search/what_if/sensitivities.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/recipes/expand_recipe.h"
#include "search/recipes/recipe.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct AskedPlan {
  OperatorGraph graph;
  Topology topology;
  Runtime runtime;
  PlanOptions options = {};
  Strategy strategy = {};
  [[nodiscard]] Sensitivities found() const {
    return sensitivities({graph, topology, nullptr, runtime, options, strategy, true});
  }
};

AskedPlan of_recipe(const std::string& model, const std::string& system, const std::string& recipe_text,
                    const std::string& runtime, std::int32_t microbatches) {
  AskedPlan asked{make_zoo_model(model), make_topology(system), parse_runtime(runtime)};
  const RecipeModel recipe_model(asked.graph);
  const Recipe recipe = completed(parse_recipe(recipe_text),
                                  static_cast<std::int64_t>(asked.topology.num_devices()), &recipe_model);
  RecipeStrategy made = expand_recipe(recipe, recipe_model, asked.topology);
  made.apply_to(asked.options);
  asked.options.microbatches = microbatches;
  asked.options.optimizer = Optimizer::Adam;
  asked.strategy = std::move(made.strategy);
  return asked;
}

const Sensitivity& named(const Sensitivities& all, const std::string& figure) {
  return *std::ranges::find(all.figures, figure, &Sensitivity::figure);
}

// What the critical path says is what a simulation says, but for what the path does not see: others become
// critical. These gain at most a sixth of the change, and a hundredth of a percent for orders on lanes.
void expect_as_simulated(const AskedPlan& asked) {
  const Sensitivities all = asked.found();
  ASSERT_FALSE(all.figures.empty());
  int told = 0;
  for (const Sensitivity& s : all.figures) {
    if (!s.first_order) continue;
    ++told;
    const auto gain = static_cast<double>(all.time - *s.simulated),
               first = static_cast<double>(all.time - *s.first_order);
    EXPECT_NEAR(gain, first, std::max(first / 6, static_cast<double>(all.time) * 1e-4))
        << s.figure << " of " << all.time;
  }
  EXPECT_GE(told, 4);
}

TEST(SensitivitiesOfPlans, AreAsSimulated) {
  expect_as_simulated(of_recipe("gpt:layers=4,batch=16", "dgx-a100:2", "tp2,dp8,mbs2", "pipesim", 4));
  expect_as_simulated(of_recipe("gpt:layers=4,batch=8", "dgx-a100:2", "tp2,pp2,dp4,mbs2", "pipesim", 8));
  expect_as_simulated(of_recipe("gpt:layers=4,batch=16", "dgx-a100:2", "dp16,mbs1,zero3", "pipesim", 2));
  expect_as_simulated(of_recipe("gpt:layers=4,batch=8", "dgx-a100:2", "tp2,pp2,dp4,mbs2", "megatron", 8));
}

TEST(SensitivitiesOfPlans, AreAsSimulatedWhereDevicesStandForOthers) {
  AskedPlan asked = of_recipe("gpt3-1.3b:batch=32", "dgx-a100:8", "tp2,dp32,mbs1", "pipesim", 16);
  expect_as_simulated(asked);
}

// On one device all time is products, memory and launches: their gains add up to a tenth of it less what x1.1
// leaves: 1 - 1/1.1 of times by rates, a tenth of launches.
TEST(SensitivitiesOfPlans, OfOneDeviceAddUpToItsTime) {
  AskedPlan asked{make_zoo_model("alexnet:batch=64"), make_topology("p100-4x4:1"), {}};
  const CostModel costs(asked.topology);
  asked.strategy = baseline_strategy("single-device", asked.graph, costs);
  const Sensitivities all = asked.found();
  double gain = 0;
  for (const char* figure : {"device.rate", "device.memory_bandwidth", "device.launch_overhead"}) {
    const Sensitivity& s = named(all, figure);
    EXPECT_EQ(*s.first_order, *s.simulated) << figure;  // a chain has no other path
    gain += static_cast<double>(all.time - *s.first_order);
  }
  const double share = gain / static_cast<double>(all.time);
  EXPECT_GT(share, 1 - 1 / 1.1 - 0.005);
  EXPECT_LT(share, 0.1);
  EXPECT_EQ(*named(all, "intra_node.bandwidth").first_order, all.time);
}

TEST(SensitivitiesOfPlans, NameTheHostOnlyWhereThereIsOne) {
  const AskedPlan without = of_recipe("gpt:layers=2,batch=4", "dgx-a100", "dp4,tp2,mbs1", "pipesim", 1);
  for (const Sensitivity& s : without.found().figures) EXPECT_NE(s.figure, "runtime.host");
  const AskedPlan with = of_recipe("gpt:layers=2,batch=4", "dgx-a100", "dp4,tp2,mbs1", "torch-eager", 1);
  const Sensitivities all = with.found();
  EXPECT_LT(*named(all, "runtime.host").simulated, all.time);  // small kernels wait for their launches
}

}  // namespace
}  // namespace pipesim

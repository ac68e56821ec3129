#include "tools/accuracy/predict_run.h"

#include <fmt/format.h>

#include <vector>

#include "search/evaluator.h"
#include "search/recipes/recipe.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

// A node of so many devices on a switch. Its links decide times, and hardly any memory.
Topology node_of(const std::string& kind, std::int64_t devices) {
  return parse_topology(fmt::format(R"({{"pipesim_topology": 1, "name": "node", "nodes": {{"name": "node0",
        "devices": {{"count": {}, "kind": "{}"}}, "switches": ["switch"],
        "links": [{{"between": ["gpu*", "switch"], "bandwidth": "300 GB/s", "latency": "500 ns"}}]}}}})",
                                    devices, kind),
                        "node");
}

PredictedMemory simulated(const ExpressedRun& run) {
  const Topology topology = node_of(run.device_kind, run.devices);
  Recipe recipe = parse_recipe(run.recipe);
  const ModelRun sized = run_of_recipe(run.model, run.devices,
                                       {.batch = run.batch, .microbatch = {}, .microbatches = {}}, recipe);
  const OperatorGraph graph = open_model(sized.model);
  Plan plan;
  plan.options.optimizer = Optimizer::Adam;
  plan.options.gradient_type = run.gradient_type;
  plan.options.microbatches = sized.microbatches;
  apply_recipe(recipe, RecipeModel(graph), topology, plan);
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, plan.options);
  std::vector<DeviceMemory> peaks;
  const Evaluation scored = evaluator.score(evaluator.contents().bind(plan.strategy), peaks);
  const DeviceMemory& last = peaks.back();
  const auto at_peak = [&](MemoryCategory category) {
    return last.at_peak[static_cast<std::size_t>(category)];
  };
  const Bytes weights = at_peak(MemoryCategory::Weights);
  Bytes state = weights + at_peak(MemoryCategory::Gradients) + at_peak(MemoryCategory::OptimizerState);
  if (run.update_gradients) state += Bytes(2 * weights.value);  // 4 bytes beside 2 of the weight
  return {last.peak + run.workspace, state + run.workspace, to_seconds(scored.time)};
}

}  // namespace

PredictedMemory RunPredictor::predict(const ExpressedRun& run) {
  const std::string key =
      fmt::format("{} {} {} {} {} {} {} {}", run.model, run.device_kind, run.devices, run.recipe, run.batch,
                  static_cast<int>(run.gradient_type), run.workspace.value, run.update_gradients);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_[key] = simulated(run);
}

}  // namespace pipesim

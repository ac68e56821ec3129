#include <fmt/format.h>

#include <algorithm>

#include "search/planners/machine_levels.h"
#include "search/planners/pipedream_layers.h"
#include "search/planners/planner.h"
#include "search/planners/sharding_traffic.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::vector<std::int32_t> stages_of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                              const std::vector<PipelineStage>& stages) {
  std::vector<std::int32_t> stage_of_layer(layers.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers)
      stage_of_layer[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(s);
  }
  return of_operators(graph, layers, stage_of_layer);
}

}  // namespace

PlannerAnswer propose_pipedream(const PlanRequest& request) {
  const OperatorGraph& graph = request.graph();
  const LayerGraph layers = without_inputs(layers_of(graph, request.costs, DeviceId(0)));
  if (layers.size() == 0)
    throw InputError(fmt::format("pipedream: model \"{}\" has no layers but inputs", graph.name()));
  const auto together = inseparable_layers(graph, layers, request.settings.schedule);
  const ShardingTraffic traffic = sharding_traffic(graph, request.options());
  PipeDreamOptions options = request.settings.pipedream;
  options.synchronised = traffic.each + traffic.once;
  options.divides_weights = traffic.divides_weights;
  const PipeDreamOfLayers made =
      pipedream_of_layers(layers, together, machine_levels(request.topology()), options);
  const std::optional<PipeDreamPlan>& found = made.plan;
  if (!found) {
    throw InputError(
        "pipedream: no pipeline keeps to the memory limit, or the model has too few cuts to use all devices; "
        "allow --use-fewer or a larger --memory-limit");
  }
  std::vector<StageGroup> groups;
  for (const PipelineStage& stage : found->stages) {
    groups.emplace_back();
    for (const std::int64_t d : stage.devices) groups.back().emplace_back(static_cast<std::size_t>(d));
  }
  const bool turns = request.settings.replicas_take_turns;
  std::vector<StageMesh> meshes;
  for (const StageGroup& group : groups)
    meshes.push_back({group, 1, turns ? static_cast<std::int64_t>(group.size()) : 1});
  PlannerAnswer answer{PlannedModel(
      request, staged_strategy(graph, request.topology(),
                               {request.settings.schedule, stages_of_operators(graph, layers, found->stages)},
                               meshes))};
  for (const StageGroup& group : groups)
    answer.plan.devices.push_back(static_cast<std::int64_t>(group.size()));
  answer.objective = {"s", found->period.value, fmt::format("{} a batch", pretty(found->period))};
  answer.note = made.chosen;
  return answer;
}

}  // namespace pipesim

#include <fmt/format.h>

#include <algorithm>

#include "search/planners/machine_levels.h"
#include "search/planners/pipedream_layers.h"
#include "sim/base/errors.h"
#include "tools/planners/planner.h"

namespace pipesim {
namespace {

PipeDreamOptions pipedream_options(const Arguments& a) {
  PipeDreamOptions options;
  options.repaired = !a.given("cost-model") || a.text("cost-model") == "repaired";
  if (options.repaired) options.activation_compression = 1;
  if (a.has("activation-transfers"))
    options.activation_compression = a.number("activation-transfers", 1e-3, 1e6);
  options.straight = a.given("straight");
  options.fewer_machines = a.given("use-fewer");
  if (a.has("memory-limit")) {
    try {
      options.memory_limit = parse_bytes(a.text("memory-limit"));
    } catch (const InputError& error) {
      throw UsageError(fmt::format("--memory-limit: {}", error.what()));
    }
  }
  return options;
}

std::vector<std::int32_t> stages_of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                              const std::vector<PipelineStage>& stages) {
  std::vector<std::int32_t> stage_of_layer(layers.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers)
      stage_of_layer[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(s);
  }
  return of_operators(graph, layers, stage_of_layer);
}

// As the planner's model has it, where weights change as PipeDream does it. `auto` moves replicas of plans
// that split every microbatch.
bool replicas_take_turns(const Arguments& a) {
  const ScheduleKind& kind = plan_schedule(a.text("schedule"));
  return kind.takes_replicas && kind.versions_behind != nullptr && a.text("algorithm") == "pipedream";
}

PlannedPipeline propose_pipedream(const PlannerCall& call) {
  const OperatorGraph& graph = call.graph;
  const LayerGraph layers = without_inputs(layers_of(graph, call.costs, DeviceId(0)));
  if (layers.size() == 0)
    throw InputError(fmt::format("pipedream: model \"{}\" has no layers but inputs", graph.name()));
  const auto together = inseparable_layers(graph, layers, call.arguments.text("schedule"));
  const PipeDreamOfLayers made = pipedream_of_layers(layers, together, machine_levels(call.topology()),
                                                     pipedream_options(call.arguments));
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
  const bool turns = replicas_take_turns(call.arguments);
  std::vector<StageMesh> meshes;
  for (const StageGroup& group : groups)
    meshes.push_back({group, 1, turns ? static_cast<std::int64_t>(group.size()) : 1});
  PlannedPipeline planned(call, staged_strategy(graph, call.topology(),
                                                {call.arguments.text("schedule"),
                                                 stages_of_operators(graph, layers, found->stages)},
                                                meshes));
  for (const StageGroup& group : groups) planned.devices.push_back(static_cast<std::int64_t>(group.size()));
  planned.objective = {"planner_objective_s", found->period.value,
                       fmt::format("{} a batch", pretty(found->period))};
  planned.note = made.chosen;
  return planned;
}

}  // namespace

Planner pipedream_planner() {
  return {"pipedream",
          "its dynamic program over cuts, replicas and levels of the topology",
          {"schedule", "cost-model", "activation-transfers", "straight", "use-fewer", "memory-limit"},
          {"repaired", "paper"},
          propose_pipedream};
}

}  // namespace pipesim

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "search/planners/machine_levels.h"
#include "search/planners/pipedream.h"
#include "sim/base/errors.h"
#include "tools/planners/planner.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostCuts = 3'000;  // more take PipeDream's dynamic program minutes

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

// Stages of operators from stages of layers. What the planner left out joins the first that it feeds, or what
// feeds it where it feeds nobody.
std::vector<std::int32_t> stages_of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                              const std::vector<PipelineStage>& stages) {
  std::map<std::string, std::int32_t> stage_of_layer;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers)
      stage_of_layer[layers[layer].name] = static_cast<std::int32_t>(s);
  }
  constexpr std::int32_t kUnknown = -1;
  std::vector<std::int32_t> stage_of;
  for (const Operator& op : graph.operators()) {
    const auto known = stage_of_layer.find(op.name);
    stage_of.push_back(known == stage_of_layer.end() ? kUnknown : known->second);
  }
  for (std::size_t i = stage_of.size(); i-- > 0;) {
    if (stage_of[i] != kUnknown) continue;
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role != Role::Output) continue;
      for (const UseRef reader : graph.consumers(use.tensor)) {
        const std::int32_t stage = stage_of[reader.op.index()];
        if (stage != kUnknown && (stage_of[i] == kUnknown || stage < stage_of[i])) stage_of[i] = stage;
      }
    }
  }
  for (std::size_t i = 0; i < stage_of.size(); ++i) {
    if (stage_of[i] != kUnknown) continue;
    stage_of[i] = 0;
    for (const TensorUse& use : graph.operators()[i].uses) {
      const OperatorId producer = graph.tensor(use.tensor).producer;
      if (use.role == Role::Input && producer.valid())
        stage_of[i] = std::max(stage_of[i], stage_of[producer.index()]);
    }
  }
  return stage_of;
}

// The dynamic program's steps: cuts² · machines², of inner levels once more for every cut.
void require_little_work(std::size_t cuts, const std::vector<MachineLevel>& levels) {
  constexpr double kMostSteps = 1e11;  // some minutes
  const auto number = static_cast<double>(cuts);
  double steps = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const auto machines = static_cast<double>(levels[l].machines);
    steps += number * number * machines * machines * (l + 1 < levels.size() ? number : 1);
  }
  if (steps <= kMostSteps) return;
  throw InputError(
      fmt::format("pipedream: {} cuts on {} machines of one level take its dynamic program {:.0e} steps, "
                  "allowed: up to {:.0e}",
                  cuts, std::ranges::max(levels, {}, &MachineLevel::machines).machines, steps, kMostSteps));
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
  std::string note;
  std::optional<std::vector<Cut>> cuts = cuts_of(layers, kMostCuts);
  if (!cuts) {
    cuts = cuts_of_order(layers);
    note = fmt::format(
        "the model can be cut in more than {} ways; only the {} cuts of one order of its layers were looked "
        "at",
        kMostCuts, cuts->size());
  }
  const auto together = inseparable_layers(graph, layers, call.arguments.text("schedule"));
  if (!together.empty()) cuts = cuts_around(*cuts, together);
  const std::vector<MachineLevel> levels = machine_levels(call.topology());
  require_little_work(cuts->size(), levels);
  const std::optional<PipeDreamPlan> found = pipedream(*cuts, levels, pipedream_options(call.arguments));
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
  planned.note = std::move(note);
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

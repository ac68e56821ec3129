#include "search/planners/alpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

#include "search/pipelines/layer_clusters.h"
#include "search/planners/stage_costs_json.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/status_line.h"
#include "tools/cli/table.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/planners/planner.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostClusters = 1'000;

std::int32_t clusters_of(const Arguments& a) {
  return static_cast<std::int32_t>(a.integer("layers", 1, kMostClusters));
}

PlannerObjective objective_of(const StagePartition& partition) {
  return {"planner_objective_s", partition.total.value,
          fmt::format("{} an iteration before weights are updated", pretty(partition.total))};
}

PlannedPipeline planned_of(const PlannerCall& call, const AlpaPlan& plan, bool rows_are_known) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> last_layers;
  for (const std::size_t number : plan.partition.stages) {
    sizes.push_back(plan.options[number].devices);
    last_layers.push_back(plan.options[number].last);
  }
  std::vector<StageMesh> meshes;
  const std::vector<StageGroup> groups = place_submeshes(call.topology(), sizes);
  for (std::size_t s = 0; s < groups.size(); ++s)
    meshes.push_back({groups[s], rows_are_known ? plan.options[plan.partition.stages[s]].config : 1});
  const Pipeline pipeline{"1f1b", stages_of_layers(plan.cluster_of, last_layers)};
  PlannedPipeline planned(call, staged_strategy(call.graph, call.topology(), pipeline, meshes));
  planned.devices = sizes;
  planned.objective = objective_of(plan.partition);
  choose_schedule(call, planned);
  return planned;
}

StageCosts open_stage_costs(const Arguments& a) {
  const std::string& file = a.text("stage-costs");
  return read_stage_costs(read_file(file), file);
}

// What a schedule wants of stages beside.
std::string wanted_of(const std::string& schedule) {
  const ScheduleKind& kind = schedule_kind(schedule);
  return kind.both_ways
             ? fmt::format(", and, for schedule \"{}\", an even number of stages with as many devices each",
                           schedule)
         : kind.versions_behind != nullptr
             ? fmt::format(", and, for schedule \"{}\", no weight that several of them use", schedule)
             : "";
}

StagePartition partition_of(const StageProblem& problem, const std::string& file,
                            const std::string& schedule) {
  auto partition = partition_for(schedule, problem);
  if (partition) return *std::move(partition);
  throw InputError(
      fmt::format("{}: no stages of its entries have all {} layers, exactly {} devices and enough memory for "
                  "what is in flight{}",
                  file, problem.layers, problem.devices, wanted_of(schedule)));
}

// Without stages that would end between two layers of a list.
void keep_together(StageProblem& problem, const std::vector<std::int32_t>& cluster_of,
                   const std::vector<std::vector<std::int32_t>>& together) {
  const auto cluster = [&](std::int32_t layer) { return cluster_of[static_cast<std::size_t>(layer)]; };
  for (const std::vector<std::int32_t>& list : together) {
    std::erase_if(problem.options, [&](const StageOption& o) {
      return cluster(list.front()) <= o.last && o.last < cluster(list.back());
    });
  }
}

// The file's microbatches, unless others were asked for.
ModelRun run_of(const PlannerCall& call, std::int64_t microbatches) {
  const Arguments& a = call.arguments;
  ModelRun run = call.run;
  if (a.has("microbatch") || a.given("microbatches") || a.text("algorithm") != "alpa") return run;
  if (a.has("batch")) {
    const std::int64_t batch = call.graph.batch();
    if (batch % microbatches != 0)
      throw UsageError(fmt::format("search: --batch {} is no multiple of the {} microbatches of {}", batch,
                                   microbatches, a.text("stage-costs")));
    run.model = with_batch(run.model, batch / microbatches);
  }
  run.microbatches = static_cast<std::int32_t>(microbatches);
  return run;
}

// Parts of a node, and whole nodes, as place_submeshes() finds them.
void require_submeshes(const StageCosts& costs, const Topology& topology, const std::string& file) {
  std::vector<std::int64_t> sizes;  // of nodes
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    if (const auto devices = topology.devices_of_node(static_cast<std::int32_t>(n)); !devices.empty())
      sizes.push_back(static_cast<std::int64_t>(devices.size()));
  }
  for (std::size_t m = 0; m < costs.submeshes.size(); ++m) {
    const auto [nodes, each] = costs.submeshes[m];
    const bool there =
        nodes == 1 ? each <= *std::ranges::max_element(sizes) : nodes <= std::ranges::count(sizes, each);
    if (there) continue;
    const auto [least, most] = std::ranges::minmax(sizes);
    throw InputError(
        fmt::format("{}: /submesh/{}: found [{}, {}], topology \"{}\" has {} node{} of {} devices; allowed: "
                    "devices of one "
                    "node, or whole nodes",
                    file, m, nodes, each, topology.name(), sizes.size(), sizes.size() == 1 ? "" : "s",
                    least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most)));
  }
}

PlannedPipeline propose_from_file(const PlannerCall& call) {
  const std::string& file = call.arguments.text("stage-costs");
  if (call.arguments.given("layers"))
    throw UsageError("search: --layers and --stage-costs exclude each other: the file tells them");
  StageCosts costs = open_stage_costs(call.arguments);
  const auto devices = static_cast<std::int64_t>(call.topology().num_devices());
  if (costs.problem.devices != devices)
    throw InputError(
        fmt::format("{}: /D: found {} devices, the topology has {}", file, costs.problem.devices, devices));
  require_submeshes(costs, call.topology(), file);
  const LayerGraph layers = layers_of(call.graph, call.costs, DeviceId(0));
  if (static_cast<std::size_t>(costs.problem.layers) > layers.size())
    throw InputError(fmt::format("{}: /L: found {} layers, the model has {} operators", file,
                                 costs.problem.layers, layers.size()));
  const ModelRun run = run_of(call, costs.problem.microbatches);
  const OperatorGraph graph = open_model(run.model);
  const PlannerCall sized{call.arguments, run, graph, call.costs, call.err};
  costs.problem.microbatches = microbatches_of(run);
  const std::string& schedule = call.arguments.text("schedule");
  std::vector<std::int32_t> cluster_of = cluster_layers(layers, costs.problem.layers);
  keep_together(costs.problem, cluster_of, inseparable_layers(graph, layers, schedule));
  StagePartition partition = partition_of(costs.problem, file, schedule);
  PlannedPipeline planned = planned_of(
      sized, {std::move(partition), std::move(costs.problem.options), std::move(cluster_of)}, false);
  planned.note = "the file does not tell how stages are split: data parallelism was taken";
  return planned;
}

PlannedPipeline propose_alpa(const PlannerCall& call) {
  if (call.arguments.has("stage-costs")) return propose_from_file(call);
  StatusLine status(call.err);
  const auto plan = alpa(
      call.graph, call.costs, plan_options_of(call.arguments, call.run), clusters_of(call.arguments),
      [&](std::int64_t devices) {
        if (status.due()) status.show(fmt::format("simulated on {} devices", devices));
      },
      call.arguments.text("schedule"));
  if (!plan && schedule_kind(call.arguments.text("schedule")).both_ways)
    throw InputError(
        fmt::format("alpa: schedule \"{}\" needs an even number of stages with as many devices each, and no "
                    "such pipeline of "
                    "the model on {} fits into memory; try another number of devices, or more --layers",
                    call.arguments.text("schedule"), devices_text(call.topology())));
  if (!plan)
    throw InputError("alpa: no pipeline of the model fits into memory; try more devices or --layers");
  return planned_of(call, *plan, true);
}

}  // namespace

int report_stage_costs(const Arguments& a, Streams& streams) {
  for (const char* option :
       {"topology", "output", "batch", "microbatch", "microbatches", "profile-batch", "recompute", "layers",
        "calibration", "optimizer", "gradient-type", "gradient-piece", "schedule", "memory-margin"}) {
    if (a.given(option)) throw UsageError(fmt::format("search: --{} needs --model", option));
  }
  const StageCosts costs = open_stage_costs(a);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const StagePartition partition = partition_of(costs.problem, a.text("stage-costs"), a.text("schedule"));
  const double planned_s = std::chrono::duration<double>(Clock::now() - began).count();
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  Table table({{"layers"}, {"nodes x devices"}, {"config", Align::Right}, {"microbatch", Align::Right}});
  for (const std::size_t number : partition.stages) {
    const StageOption& o = costs.problem.options[number];
    const auto [nodes, each] = costs.submeshes[static_cast<std::size_t>(o.submesh)];
    table.add({fmt::format("{} to {}", o.first, o.last), fmt::format("{} x {}", nodes, each),
               fmt::format("{}", o.config), pretty(o.time)});
    stages.push_back({{"layers", {o.first, o.last}},
                      {"submesh", {nodes, each}},
                      {"config", o.config},
                      {"time_s", o.time.value}});
  }
  const PlannerObjective objective = objective_of(partition);
  if (a.given("json")) {
    const nlohmann::ordered_json json{{objective.key, objective.value},
                                      {"planner_wall_time_s", planned_s},
                                      {"microbatches", costs.problem.microbatches},
                                      {"stages", std::move(stages)}};
    streams.out << json.dump(2) << "\n";
  } else {
    streams.out << fmt::format("{}: {} layers on {} devices, {} microbatches, planned by alpa in {}\n\n",
                               a.text("stage-costs"), costs.problem.layers, costs.problem.devices,
                               costs.problem.microbatches, pretty(Seconds(planned_s)))
                << table.str(2) << fmt::format("\n  {}, say the costs\n", objective.text);
  }
  return 0;
}

Planner alpa_planner() {
  return {"alpa",
          "stages on submeshes by dynamic programming",
          {"schedule", "layers", "stage-costs"},
          {},
          propose_alpa};
}

}  // namespace pipesim

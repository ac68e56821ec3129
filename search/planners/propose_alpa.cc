#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "search/alpa/alpa.h"
#include "search/alpa/solved_stages.h"
#include "search/alpa/submeshes.h"
#include "search/pipelines/layer_clusters.h"
#include "search/planners/planner.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/memory/peak_memory.h"

namespace pipesim {
namespace {

// The stages' splits, which are on the first devices, on the devices of their stages.
Strategy placed(const AlpaPlan& plan, const Pipeline& pipeline, const std::vector<StageGroup>& groups) {
  Strategy strategy;
  for (std::size_t i = 0; i < pipeline.stage_of.size(); ++i) {
    const auto stage = static_cast<std::size_t>(pipeline.stage_of[i]);
    ParallelConfig config = plan.splits[stage][i];
    for (DeviceId& device : config.devices) device = groups[stage][device.index()];
    strategy.push_back(std::move(config));
  }
  return strategy;
}

PlannerAnswer answer_of(const PlanRequest& request, const AlpaPlan& plan, bool rows_are_known) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> last_layers;
  for (const std::size_t number : plan.partition.stages) {
    sizes.push_back(plan.options[number].devices);
    last_layers.push_back(plan.options[number].last);
  }
  std::vector<StageMesh> meshes;
  const std::vector<StageGroup> groups = place_submeshes(request.topology(), sizes);
  for (std::size_t s = 0; s < groups.size(); ++s)
    meshes.push_back({groups[s], rows_are_known ? plan.options[plan.partition.stages[s]].config : 1});
  const Pipeline pipeline{"1f1b", stages_of_layers(plan.cluster_of, last_layers)};
  PipelinedStrategy staged = staged_strategy(request.graph(), request.topology(), pipeline, meshes);
  if (!plan.splits.empty()) staged.strategy = placed(plan, pipeline, groups);
  PlannerAnswer answer{PlannedModel(request, std::move(staged))};
  answer.plan.devices = sizes;
  answer.objective = objective_of(plan.partition);
  choose_schedule(request, answer);
  return answer;
}

// Returns the evaluation under the chosen schedule; nothing where there was no time for it.
std::optional<Evaluation> evaluation_of(const PlannerAnswer& answer) {
  for (const PlannerTrial& trial : answer.trials.tried) {
    if (trial.schedule == answer.plan.options.pipeline->schedule) return trial.evaluation;
  }
  return std::nullopt;
}

bool is_faster(const PlannerAnswer& a, const PlannerAnswer& b) {
  const std::optional<Evaluation> first = evaluation_of(a), second = evaluation_of(b);
  if (!first || !second) return first.has_value();
  return std::tuple(first->overflow, first->time) < std::tuple(second->overflow, second->time);
}

Bytes shortage_of(const PlanRequest& request, const PlannedModel& planned) {
  Evaluator evaluator(planned.graph, request.costs, planned.options);
  return largest_shortage(evaluator.evaluate(planned.strategy, {.peaks = true}).peaks, request.topology());
}

// Nothing where no schedule suits splits that differ from stage to stage.
std::optional<PlannerAnswer> answer_if_legal(const PlanRequest& request, const AlpaPlan& plan) {
  try {
    return answer_of(request, plan, false);
  } catch (const Interrupted&) {
    throw;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Sums do not know what passes need while they run, so what was lacking is spared in the next try.
constexpr int kMostSpares = 3;

std::optional<PlannerAnswer> propose_solved(const PlanRequest& request) {
  const PlannerSettings& settings = request.settings;
  SolvedStages stages(request.graph(), request.costs, request.options(), settings.layers, settings.schedule);
  std::optional<PlannerAnswer> best;
  Bytes spare;
  for (int tried = 0; tried < kMostSpares; ++tried) {
    Bytes shortage;
    for (const AlpaPlan& plan : stages.plans(spare, [&](std::int64_t devices) {
           request.status(fmt::format("solved stages on {}", counted(devices, "device")));
         })) {
      std::optional<PlannerAnswer> answer = answer_if_legal(request, plan);
      if (!answer) continue;
      answer->note = fmt::format(
          "compute, transfers and synchronisation of each stage's splits add up to {}",
          plan.proven ? "the least of all, proven" : "little, but not all are proven to be the least");
      const std::optional<Evaluation> evaluation = evaluation_of(*answer);
      if (evaluation && !evaluation->feasible())
        shortage = std::max(shortage, shortage_of(request, answer->plan));
      if (!best || is_faster(*answer, *best)) best = std::move(answer);
    }
    if (shortage == Bytes(0)) break;
    spare += shortage;
  }
  return best;
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

// Removes stages that would end between two layers of a list.
void keep_together(StageProblem& problem, const std::vector<std::int32_t>& cluster_of,
                   const std::vector<std::vector<std::int32_t>>& together) {
  const auto cluster = [&](std::int32_t layer) { return cluster_of[static_cast<std::size_t>(layer)]; };
  for (const std::vector<std::int32_t>& list : together) {
    std::erase_if(problem.options, [&](const StageOption& o) {
      return cluster(list.front()) <= o.last && o.last < cluster(list.back());
    });
  }
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

PlannerAnswer propose_from_file(const PlanRequest& request, const StageCostsFile& file) {
  StageProblem problem = file.costs.problem;
  const auto devices = static_cast<std::int64_t>(request.topology().num_devices());
  if (problem.devices != devices)
    throw InputError(
        fmt::format("{}: /D: found {} devices, the topology has {}", file.name, problem.devices, devices));
  require_submeshes(file.costs, request.topology(), file.name);
  const LayerGraph layers = layers_of(request.graph(), request.costs, DeviceId(0));
  if (static_cast<std::size_t>(problem.layers) > layers.size())
    throw InputError(fmt::format("{}: /L: found {} layers, the model has {} operators", file.name,
                                 problem.layers, layers.size()));
  Problem sized = request.problem;
  std::optional<std::int64_t> batch;
  if (file.sets_microbatches) {
    const std::int64_t all = request.graph().batch();
    if (file.divides_batch && all % problem.microbatches != 0)
      throw UsageError(fmt::format("search: --batch {} is no multiple of the {} microbatches of {}", all,
                                   problem.microbatches, file.name));
    if (file.divides_batch) batch = all / problem.microbatches;
    sized.options.microbatches = static_cast<std::int32_t>(problem.microbatches);
  }
  if (sized.options.microbatches > kMostMicrobatches)
    throw UsageError(
        fmt::format("{} microbatches, allowed: up to {}", sized.options.microbatches, kMostMicrobatches));
  if (batch) sized.graph = request.with_batch(*batch);
  problem.microbatches = sized.options.microbatches;
  const std::string& schedule = request.settings.schedule;
  std::vector<std::int32_t> cluster_of = cluster_layers(layers, problem.layers);
  keep_together(problem, cluster_of, inseparable_layers(sized.graph, layers, schedule));
  StagePartition partition = partition_of(problem, file.name, schedule);
  const PlanRequest asked{
      sized,          request.costs,   request.with_batch, request.takes_batch, request.settings,
      request.status, request.observer};
  PlannerAnswer answer = answer_of(
      asked, {std::move(partition), std::move(problem.options), std::move(cluster_of), {}, false}, false);
  answer.plan.batch = batch;
  answer.note = "the file does not tell how stages are split: data parallelism was taken";
  return answer;
}

}  // namespace

StagePartition partition_of(const StageProblem& problem, const std::string& file,
                            const std::string& schedule) {
  auto partition = partition_for(schedule, problem);
  if (partition) return *std::move(partition);
  throw InputError(
      fmt::format("{}: no stages of its entries have all {} layers, exactly {} devices and enough memory for "
                  "what is in flight{}",
                  file, problem.layers, problem.devices, wanted_of(schedule)));
}

PlannerObjective objective_of(const StagePartition& partition) {
  return {"s", partition.total.value,
          fmt::format("{} an iteration before weights are updated", pretty(partition.total))};
}

PlannerAnswer propose_alpa(const PlanRequest& request) {
  const PlannerSettings& settings = request.settings;
  if (settings.stage_costs) return propose_from_file(request, *settings.stage_costs);
  const auto rows = alpa(
      request.graph(), request.costs, request.options(), settings.layers,
      [&](std::int64_t devices) { request.status(fmt::format("simulated on {} devices", devices)); },
      settings.schedule);
  std::optional<PlannerAnswer> best;
  for (const AlpaPlan& plan : rows) {
    PlannerAnswer answer = answer_of(request, plan, true);
    if (!best || is_faster(answer, *best)) best = std::move(answer);
  }
  try {
    auto solved = propose_solved(request);
    if (solved && (!best || is_faster(*solved, *best))) best = std::move(solved);
  } catch (const OutOfTime&) {
    if (!best) throw;
  }
  if (best) return *std::move(best);
  if (schedule_kind(settings.schedule).both_ways)
    throw InputError(fmt::format(
        "alpa: schedule \"{}\" needs an even number of stages with as many devices each, and no "
        "such pipeline of the model on {} fits into memory; try another number of devices, or more "
        "--layers",
        settings.schedule, counted(static_cast<std::int64_t>(request.topology().num_devices()), "device")));
  throw NoPlanFound("alpa: no pipeline of the model fits into memory; try more devices or --layers");
}

}  // namespace pipesim

#include "tools/analysis/plans/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/training_work.h"
#include "search/baselines/baselines.h"
#include "search/recipes/recipe_model.h"
#include "sim/base/deadline.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

// The devices at the ends of a lane's links; switches don't count.
struct LaneEnds {
  std::vector<std::size_t> devices;
  bool bus = false;  // of all its links: only who takes part in a task holds it
};

std::vector<LaneEnds> ends_of_lanes(const Topology& topology) {
  std::vector<LaneEnds> ends(topology.num_lanes());
  for (const Link& link : topology.parts().links) {
    for (const std::int32_t end : {link.a, link.b}) {
      const auto vertex = static_cast<std::size_t>(end);
      if (topology.parts().vertices[vertex].kind == VertexKind::Bus) ends[link.forward.index()].bus = true;
      if (vertex >= topology.num_devices()) continue;
      ends[link.forward.index()].devices.push_back(vertex);
      if (link.backward != link.forward) ends[link.backward.index()].devices.push_back(vertex);
    }
  }
  return ends;
}

struct Interval {
  Nanoseconds begin, end;
};

Nanoseconds covered_time(const SimulatedPart& part, std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Nanoseconds sum = 0, reached = 0;
  for (const Interval& i : intervals) {
    if (i.end > reached) sum += part.time_spent(std::max(i.begin, reached), i.end);
    reached = std::max(reached, i.end);
  }
  return sum;
}

// Returns, by lane of the simulated part, the simulated devices at its ends.
std::vector<std::vector<std::size_t>> simulated_ends(const SimulatedPart& part,
                                                     const std::vector<LaneEnds>& ends) {
  std::vector<std::vector<std::size_t>> simulated(ends.size());
  for (std::size_t lane = 0; lane < ends.size(); ++lane) {
    std::vector<std::size_t>& of_lane = simulated[part.stands_for(LaneId(lane)).index()];
    for (const std::size_t d : ends[lane].devices) {
      const bool stands = part.stands_for(DeviceId(d)).index() == d;
      if (stands && std::ranges::find(of_lane, d) == of_lane.end()) of_lane.push_back(d);
    }
  }
  return simulated;
}

// Finds the busy times of the simulated devices first, and from these the times of all devices.
void busy_times(const SimulatedPart& part, const BoundStrategy& strategy, PlanReport& report) {
  const std::size_t devices = part.topology().num_devices();
  const std::vector<LaneEnds> ends = ends_of_lanes(part.topology());
  const std::vector<std::vector<std::size_t>> simulated = simulated_ends(part, ends);
  std::vector<std::span<const DeviceId>> groups;
  if (std::ranges::any_of(ends, &LaneEnds::bus))
    groups = groups_of_tasks(part, strategy, GroupMembers::Simulated);
  std::vector<std::vector<Interval>> links(devices);
  report.compute.assign(devices, 0);
  report.recompute.assign(devices, 0);
  constexpr std::size_t kBetweenLooks = 4096;
  for (std::size_t t = 0; t < part.dag().num_tasks(); ++t) {
    if (t % kBetweenLooks == 0) stop_if_late();
    const Nanoseconds start = part.timeline().start[t];
    for (const LaneUse use : part.dag().lanes(TaskId(t))) {
      if (use.lane.index() < devices) {
        const TaskKind kind = part.labels()[t].kind;
        const Nanoseconds spent = part.time_spent(start, start + use.hold);
        if (!is_communication(kind)) report.compute[use.lane.index()] += spent;
        if (kind == TaskKind::Recompute) report.recompute[use.lane.index()] += spent;
        continue;
      }
      const bool bus = ends[use.lane.index()].bus;
      for (const std::size_t d : simulated[use.lane.index()]) {
        if (!bus || std::ranges::find(groups[t], DeviceId(d)) != groups[t].end())
          links[d].push_back({start, start + use.hold});
      }
    }
  }
  for (std::vector<Interval>& intervals : links)
    report.communication.push_back(covered_time(part, intervals));
  if (!part.folding()) return;
  for (std::vector<Nanoseconds>* times : {&report.compute, &report.recompute, &report.communication})
    *times = part.folding()->unfolded(*times);
}

// Sets the times of a path through the simulated part, each counted as often as its window repeats.
void repeat(const SimulatedPart& part, CriticalPath& path) {
  path.compute = path.communication = path.waiting = 0;
  for (const CriticalStep& step : path.steps) {
    const Nanoseconds ready = step.until - step.waiting;
    path.waiting += part.time_spent(ready, step.until);
    const bool communicates = is_communication(part.labels()[step.task.index()].kind);
    (communicates ? path.communication : path.compute) += part.time_spent(step.from, ready);
  }
}

Nanoseconds time_of_hosts(const SimulatedPart& part, const CriticalPath& path) {
  Nanoseconds time = 0;
  for (const CriticalStep& step : path.steps) {
    if (part.labels()[step.task.index()].kind == TaskKind::Host)
      time += part.time_spent(step.from, step.until - step.waiting);
  }
  return time;
}

// Replays the allocators of devices of kinds of which it is known what frameworks take.
void replay_allocators(PlanReport& report) {
  const Topology& topology = report.part->topology();
  std::vector<DeviceId> devices;
  const auto add = [&](DeviceId d) {
    if (!topology.kind(d).memory_overhead.is_none() && std::ranges::find(devices, d) == devices.end())
      devices.push_back(d);
  };
  for (const StageMemory& s : report.memory_of_stages) add(s.device);
  for (const DeviceKind& kind : topology.parts().kinds) {
    if (const auto fullest = fullest_of_kind(report, topology, &kind)) add(DeviceId(*fullest));
  }
  report.expandable_segments = report.part->costs().runtime().expandable_segments;
  const std::vector<ReservedMemory> reserved = allocator_memory(*report.part, report.memory, devices);
  for (std::size_t i = 0; i < devices.size(); ++i) report.reserved.emplace(devices[i], reserved[i]);
  for (StageMemory& s : report.memory_of_stages) {
    if (const auto found = report.reserved.find(s.device); found != report.reserved.end())
      s.reserved = found->second.reserved;
  }
}

PlanReport report_of(Evaluated evaluated, const BoundStrategy& strategy, const FlopsCounting& counting) {
  PlanReport report;
  const Evaluation& evaluation = *evaluated.cost;
  const SimulatedPart& part = report.part.emplace(std::move(*evaluated.part));
  const OperatorGraph& graph = part.graph();
  const PlanContents& contents = part.contents();
  const PlanOptions& options = contents.options();
  const Topology& topology = part.topology();
  report.memory = std::move(evaluated.peaks);
  if (!evaluation.proven) report.spread = evaluation.spread;
  report.iteration_time = evaluation.time;
  report.makespan = part.makespan();
  report.samples_per_second =
      static_cast<double>(samples_per_iteration(graph, options)) / seconds(evaluation.time);
  report.rates = training_rates(contents, evaluation.time, counting);
  report.num_tasks = part.dag().num_tasks();
  const std::vector<std::int64_t> alike = part.devices_alike();
  report.simulated_devices = std::ranges::count_if(alike, [](std::int64_t n) { return n > 0; });
  if (!part.steady().windows.empty()) report.simulated_microbatches = part.expanded().microbatches();
  report.infeasible = memory_shortage(report.memory, topology);
  report.memory_of_stages = memory_by_stage(strategy, options.pipeline, report.memory);
  replay_allocators(report);
  Strategy configs;
  for (const BoundOperator* bound : strategy) configs.push_back(bound->config);
  const RecipeModel model(graph);
  report.recipe = recognised_recipe(configs, options, model, topology, part.costs().runtime());
  report.idle = idle_devices(configs, graph, topology);
  report.borrowed_rates = borrowed_rates(graph, topology);
  report.opaque = opaque_operators(graph, strategy, options.pipeline);
  stop_if_late();
  report.critical = critical_path(part.dag(), part.timeline(),
                                  [&](TaskId t) { return is_communication(part.labels()[t.index()].kind); });
  if (!part.steady().windows.empty()) repeat(part, report.critical);
  report.critical_host = time_of_hosts(part, report.critical);
  for (const CriticalStep& step : report.critical.steps) report.critical_tasks += part.times(step.from);
  busy_times(part, strategy, report);
  report.by_cause =
      communication_times(part, strategy, groups_of_tasks(part, strategy, GroupMembers::Real), model.axes());
  return report;
}

}  // namespace

TrainingRates training_rates(const PlanContents& contents, Nanoseconds iteration,
                             const FlopsCounting& counting) {
  const Recomputation& recomputation = contents.recomputation();
  const TrainingWork work =
      training_work(contents.graph(), counting, [&](OperatorId op) { return recomputation.again(op); });
  if (work.tokens == 0 || !contents.versions().trained()) return {};
  const double rate = contents.options().microbatches / seconds(iteration);
  PeakRate peak = peak_rate(contents.graph(), contents.costs().topology());
  return {.tokens_per_second = rate * static_cast<double>(work.tokens),
          .model_flops_per_second = rate * work.model_flops,
          .hardware_flops_per_second = rate * work.hardware_flops,
          .peak_flops_per_second = peak.all.value,
          .peak_types = std::move(peak.types),
          .counting = counting,
          .causal = work.causal};
}

PlanReport report_plan(Evaluator& evaluator, const BoundStrategy& strategy, const FlopsCounting& counting) {
  return report_of(evaluator.evaluate(strategy, {.peaks = true, .part = Labels::Make}), strategy, counting);
}

PlanReport report_plan_in_full(Evaluator& evaluator, const BoundStrategy& strategy,
                               const FlopsCounting& counting) {
  return report_of(evaluator.evaluate(strategy, {.extent = Extent::All, .peaks = true, .part = Labels::Make}),
                   strategy, counting);
}

std::string borrowed_rates(const OperatorGraph& graph, const Topology& topology) {
  std::string text;
  for (const DataType type : {DataType::Float16, DataType::BFloat16}) {
    if (!std::ranges::any_of(graph.tensors(), [&](const Tensor& t) { return t.type == type; })) continue;
    std::set<std::string> told;
    for (std::size_t d = 0; d < topology.num_devices(); ++d) {
      const DeviceKind& kind = topology.kind(DeviceId(d));
      const DataType taken = rate_type(kind, type);
      if (taken == type || !told.insert(kind.name).second) continue;
      text += fmt::format("{}{} has no {}: taken at its {} rate", text.empty() ? "" : "; ", kind.name,
                          name_of(type), name_of(taken));
    }
  }
  return text;
}

std::optional<std::size_t> fullest_of_kind(const PlanReport& report, const Topology& topology,
                                           const DeviceKind* kind) {
  const auto fill = [&](std::size_t d) {
    const Bytes usable = topology.usable_memory(DeviceId(d), report.memory[d].communicators);
    return usable.value > 0 ? report.memory[d].peak / usable : INFINITY;
  };
  std::optional<std::size_t> fullest;
  for (std::size_t d = 0; d < report.memory.size(); ++d) {
    if (kind != nullptr && &topology.kind(DeviceId(d)) != kind) continue;
    if (!fullest || fill(d) > fill(*fullest)) fullest = d;
  }
  return fullest;
}

IterationParts iteration_parts(const PlanReport& report) {
  return iteration_parts(report.iteration_time, report.compute, report.recompute, report.by_cause);
}

std::vector<Nanoseconds> compute_times(const BoundStrategy& strategy,
                                       const std::optional<Pipeline>& pipeline) {
  const bool trained = !pipeline || schedule_kind(pipeline->schedule).weights != WeightChange::Never;
  std::vector<Nanoseconds> times;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const BoundOperator& bound = *strategy[i];
    Nanoseconds& time = times.emplace_back(0);
    for (const PassWork* pass : {&bound.forward, &bound.backward_input, &bound.backward_weight}) {
      if (!trained && pass != &bound.forward) continue;
      for (const Nanoseconds duration : pass->durations) time += duration;
    }
    if (pipeline) time /= pipeline->replicas_of(pipeline->stage_of[i]);
  }
  return times;
}

std::string opaque_operators(const OperatorGraph& graph, const BoundStrategy& strategy,
                             const std::optional<Pipeline>& pipeline) {
  constexpr std::size_t kNames = 5;
  const std::vector<Nanoseconds> compute = compute_times(strategy, pipeline);
  Nanoseconds opaque = 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (op.kind != "opaque") continue;
    opaque += compute[i];
    names.push_back(fmt::format("{} ({})", op.name, std::get<std::string>(op.attributes.at("what"))));
  }
  if (names.empty()) return "";
  const std::size_t count = names.size();
  if (count > kNames) names.resize(kNames);
  return fmt::format("{} of {}, {} of the compute: {}{}", count,
                     counted(static_cast<std::int64_t>(strategy.size()), "operator"),
                     percent(share(opaque, std::accumulate(compute.begin(), compute.end(), Nanoseconds{0}))),
                     fmt::join(names, ", "), count > kNames ? ", …" : "");
}

std::string opaque_operators(Evaluator& evaluator, const Strategy& strategy) {
  const auto is_opaque = [](const Operator& op) { return op.kind == "opaque"; };
  if (std::ranges::none_of(evaluator.graph().operators(), is_opaque)) return "";  // before it is bound
  const PlanContents& contents = evaluator.contents();
  return opaque_operators(evaluator.graph(), contents.bind(strategy), contents.options().pipeline);
}

}  // namespace pipesim

#include "tools/reports/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <string>

#include "search/baselines/baselines.h"
#include "sim/base/deadline.h"
#include "sim/base/suggest.h"
#include "tools/cli/figures.h"
#include "tools/cli/table.h"
#include "tools/reports/operator_groups.h"
#include "tools/reports/task_names.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// Devices at the ends of a lane's links; a switch is none.
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

Nanoseconds covered_time(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Nanoseconds sum = 0, reached = 0;
  for (const Interval& i : intervals) {
    sum += std::max<Nanoseconds>(0, i.end - std::max(i.begin, reached));
    reached = std::max(reached, i.end);
  }
  return sum;
}

void busy_times(Evaluator& evaluator, const BoundStrategy& strategy, PlanReport& report) {
  const TaskGraph& graph = evaluator.task_graph();
  const Timeline& timeline = evaluator.timeline();
  const std::size_t devices = evaluator.topology().num_devices();
  const std::vector<LaneEnds> ends = ends_of_lanes(evaluator.topology());
  std::vector<std::span<const DeviceId>> groups;
  if (std::ranges::any_of(ends, &LaneEnds::bus)) groups = groups_of_tasks(evaluator, strategy);
  std::vector<std::vector<Interval>> links(devices);
  report.compute.assign(devices, 0);
  report.recompute.assign(devices, 0);
  constexpr std::size_t kBetweenLooks = 4096;
  for (std::size_t t = 0; t < graph.dag.num_tasks(); ++t) {
    if (t % kBetweenLooks == 0) stop_if_late();
    for (const LaneUse use : graph.dag.lanes(TaskId(t))) {
      if (use.lane.index() < devices) {
        const TaskKind kind = graph.labels[t].kind;
        if (!is_communication(kind)) report.compute[use.lane.index()] += use.hold;
        if (kind == TaskKind::Recompute) report.recompute[use.lane.index()] += use.hold;
        continue;
      }
      const LaneEnds& lane = ends[use.lane.index()];
      for (const std::size_t d : lane.devices) {
        if (!lane.bus || std::ranges::find(groups[t], DeviceId(d)) != groups[t].end())
          links[d].push_back({timeline.start[t], timeline.start[t] + use.hold});
      }
    }
  }
  for (std::vector<Interval>& intervals : links) report.communication.push_back(covered_time(intervals));
}

constexpr const char* kNotInFull =
    "not in full: as much as proves the iteration time; links and the critical path were not looked at";

bool recomputes(const PlanReport& report) {
  return std::any_of(report.recompute.begin(), report.recompute.end(), [](Nanoseconds t) { return t > 0; });
}

std::string range_text(std::vector<Nanoseconds> times) {
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return *least == *most ? pretty(to_seconds(*least))
                         : fmt::format("{} to {}", pretty(to_seconds(*least)), pretty(to_seconds(*most)));
}

std::string memory_text(const PlanReport& report, const Topology& topology) {
  std::size_t fullest = 0;
  const auto fill = [&](std::size_t d) {
    return report.memory[d].peak / topology.usable_memory(DeviceId(d));
  };
  for (std::size_t d = 1; d < report.memory.size(); ++d) {
    if (fill(d) > fill(fullest)) fullest = d;
  }
  const DeviceMemory& m = report.memory[fullest];
  std::string text =
      fmt::format("{} of {} on {}", pretty(m.peak), pretty(topology.kind(DeviceId(fullest)).memory),
                  topology.device(DeviceId(fullest)).name);
  std::string parts;
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    if (m.at_peak[c].value == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(static_cast<MemoryCategory>(c)),
                         pretty(m.at_peak[c]));
  }
  return parts.empty() ? text : text + ": " + parts;
}

// Durations of each operator's passes in one microbatch, summed over its shards; of replicas that take turns
// those of one.
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

}  // namespace

PlanReport report_plan(Evaluator& evaluator, const BoundStrategy& strategy) {
  PlanReport report;
  const Evaluation evaluation = evaluator.evaluate_labelled(strategy);
  if (evaluator.contents().versions().several()) report.memory = evaluator.stream_memory();
  if (!evaluation.proven) report.spread = evaluation.spread;
  const TaskGraph& graph = evaluator.task_graph();
  const Timeline& timeline = evaluator.timeline();
  report.iteration_time = evaluation.time;
  report.makespan = timeline.makespan;
  report.samples_per_second =
      static_cast<double>(samples_per_iteration(evaluator.graph(), evaluator.contents().options())) /
      seconds(evaluation.time);
  report.num_tasks = graph.dag.num_tasks();
  if (report.memory.empty()) report.memory = peak_memory(evaluator.expanded(), timeline);
  report.infeasible = memory_shortage(report.memory, evaluator.topology());
  Strategy configs;
  for (const BoundOperator* bound : strategy) configs.push_back(bound->config);
  report.idle = idle_devices(configs, evaluator.graph(), evaluator.topology());
  report.borrowed_rates = borrowed_rates(evaluator.graph(), evaluator.topology());
  stop_if_late();
  report.critical = critical_path(graph.dag, timeline,
                                  [&](TaskId t) { return is_communication(graph.labels[t.index()].kind); });
  busy_times(evaluator, strategy, report);
  return report;
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

nlohmann::ordered_json json_of(const PlanReport& report, const Topology& topology) {
  Json memory = Json::object(), compute = Json::object(), recompute = Json::object(),
       communication = Json::object(), margin = Json::object();
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    const std::string& name = topology.device(DeviceId(d)).name;
    if (!report.memory.empty()) memory[name] = report.memory[d].peak.value;
    margin[name] = (topology.kind(DeviceId(d)).memory - topology.usable_memory(DeviceId(d))).value;
    if (!report.compute.empty()) compute[name] = seconds(report.compute[d]);
    if (!report.recompute.empty()) recompute[name] = seconds(report.recompute[d]);
    if (report.in_full) communication[name] = seconds(report.communication[d]);
  }
  const Nanoseconds whole = report.makespan;
  Json json{{"iteration_time_s", seconds(report.iteration_time)},
            {"throughput_samples_per_s", report.samples_per_second},
            {"num_devices", topology.num_devices()},
            {"num_tasks", report.num_tasks},
            {"peak_memory_bytes", memory},
            {"fits", !report.infeasible},
            {"compute_s", compute},
            {"communication_s", communication},
            {"critical_path",
             {{"tasks", report.critical.steps.size()},
              {"compute", share(report.critical.compute, whole)},
              {"communication", share(report.critical.communication, whole)},
              {"waiting", share(report.critical.waiting, whole)}}}};
  if (!report.in_full) {
    json["simulated_in_full"] = false;
    for (const char* unknown : {"num_tasks", "communication_s", "critical_path"}) json[unknown] = nullptr;
    if (report.memory.empty()) json["peak_memory_bytes"] = nullptr;
    if (report.compute.empty()) json["compute_s"] = nullptr;
  }
  if (report.spread) json["iteration_time_spread_s"] = seconds(*report.spread);
  if (whole != report.iteration_time) json["makespan_s"] = seconds(whole);
  if (recomputes(report)) json["recompute_s"] = recompute;
  if (!topology.memory_margin().is_none()) json["memory_margin_bytes"] = margin;
  if (report.infeasible) json["infeasible"] = *report.infeasible;
  if (!report.idle.empty()) json["idle_devices"] = report.idle;
  if (!report.borrowed_rates.empty()) json["borrowed_rates"] = report.borrowed_rates;
  return json;
}

std::string to_text(const PlanReport& report, const Topology& topology) {
  const Nanoseconds whole = report.makespan;
  Table table({{}, {}});
  table.add({"iteration", pretty(to_seconds(report.iteration_time))});
  if (report.spread)
    table.add({"estimated", fmt::format("no period shows; the rate of the last quarter differs by {}",
                                        pretty(to_seconds(*report.spread)))});
  if (whole != report.iteration_time) table.add({"from empty to empty", pretty(to_seconds(whole))});
  table.add({"throughput", pretty_rate(report.samples_per_second)});
  table.add(report.in_full ? std::vector<std::string>{"tasks", fmt::format("{} on {}", report.num_tasks,
                                                                           devices_text(topology))}
                           : std::vector<std::string>{"simulated", kNotInFull});
  if (!report.idle.empty()) table.add({"idle devices", report.idle});
  if (!report.borrowed_rates.empty()) table.add({"data types", report.borrowed_rates});
  if (!report.compute.empty()) table.add({"compute", range_text(report.compute) + " a device"});
  if (recomputes(report)) table.add({"recompute", range_text(report.recompute) + " a device of this"});
  if (report.in_full) {
    table.add({"links busy", range_text(report.communication) + " a device"});
    table.add({"critical path",
               fmt::format("{} compute, {} communication, {} waiting, {} tasks",
                           percent(share(report.critical.compute, whole)),
                           percent(share(report.critical.communication, whole)),
                           percent(share(report.critical.waiting, whole)), report.critical.steps.size())});
  }
  if (!report.memory.empty()) table.add({"memory", memory_text(report, topology)});
  if (const MemoryMargin& margin = topology.memory_margin(); !margin.is_none())
    table.add({"margin", fmt::format("{} of every device's memory must stay free{}", margin.str(),
                                     report.infeasible ? "" : ": the plan fits")});
  if (report.infeasible) table.add({"does not fit", *report.infeasible});
  return table.str(2);
}

std::string configs_text(const OperatorGraph& graph, const BoundStrategy& strategy, std::size_t most,
                         const std::optional<Pipeline>& pipeline) {
  std::vector<std::string> configs;
  for (const BoundOperator* bound : strategy) configs.push_back(bound->config.str(*bound->op));
  const std::vector<Nanoseconds> compute = compute_times(strategy, pipeline);
  const Nanoseconds whole = std::accumulate(compute.begin(), compute.end(), Nanoseconds{0});
  const std::vector<OperatorGroup> groups = group_operators(configs, compute);
  Table table(
      {{"split (factor/degree)"}, {"operators", Align::Right}, {"compute", Align::Right}, {"such as"}});
  for (std::size_t i = 0; i < std::min(most, groups.size()); ++i) {
    const OperatorGroup& group = groups[i];
    constexpr std::size_t kNames = 3;
    table.add({group.words, std::to_string(group.operators.size()), percent(share(group.compute, whole)),
               some_names(graph, group, kNames)});
  }
  const std::string rest = groups.size() > most ? fmt::format("  … and {} more\n", groups.size() - most) : "";
  return table.str(2) + rest;
}

std::string devices_text(const Topology& topology) {
  return counted(static_cast<std::int64_t>(topology.num_devices()), "device");
}

std::string batch_text(const OperatorGraph& graph, const PlanOptions& options) {
  std::string text = fmt::format("batch {}", samples_per_iteration(graph, options));
  if (options.microbatches > 1)
    text += fmt::format(" in {} microbatches of {}", options.microbatches, graph.batch());
  const Recompute& recompute = options.recompute;
  if (recompute.kind == Recompute::Kind::None) return text;
  return text + (recompute.kind == Recompute::Kind::Listed
                     ? ", recompute of a list"
                     : fmt::format(", recompute {}", name_of(recompute.kind)));
}

}  // namespace pipesim

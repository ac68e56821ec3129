#include "tools/render/plans/plan_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "sim/base/out_of_memory.h"
#include "sim/explain.h"
#include "sim/trace.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

// The device that a link's lane leaves; "network" for links between switches; a bus by its name.
std::vector<std::string> processes_of_lanes(const Topology& topology) {
  std::vector<std::string> names(topology.num_lanes(), "network");
  const auto vertices = static_cast<std::int32_t>(topology.num_devices());
  const auto is_bus = [&](std::int32_t v) {
    return topology.parts().vertices[static_cast<std::size_t>(v)].kind == VertexKind::Bus;
  };
  for (const Link& link : topology.parts().links) {
    if (is_bus(link.a) || is_bus(link.b)) {
      names[link.forward.index()] = topology.lane_name(link.forward);
      continue;
    }
    if (link.b < vertices) names[link.backward.index()] = topology.device(DeviceId(link.b)).name;
    if (link.a < vertices) names[link.forward.index()] = topology.device(DeviceId(link.a)).name;
  }
  for (std::size_t d = 0; d < topology.num_devices(); ++d) names[d] = topology.device(DeviceId(d)).name;
  return names;
}

// "gpu0 (stages 0, 4)": with the stages of the operators that it runs; "gpu3 (stages 3/0)": those of even and
// of odd microbatches, which go both ways.
void name_stages(const SimulatedPart& part, std::vector<std::string>& processes) {
  const std::optional<Pipeline>& pipeline = part.contents().options().pipeline;
  if (!pipeline) return;
  const bool both_ways = schedule_kind(pipeline->schedule).both_ways;
  const std::int32_t last = pipeline->num_stages() - 1;
  std::vector<std::set<std::int32_t>> stages(part.topology().num_devices());
  for (const TaskLabel& label : part.task_graph().labels) {
    if (!label.op.valid() || is_communication(label.kind)) continue;
    const std::int32_t stage = part.contents().stage_of(label.op);
    if (!both_ways) {
      stages[label.device.index()].insert(stage);
    } else if (is_pass(label.kind)) {
      stages[label.device.index()] = {label.microbatch % 2 == 1 ? last - stage : stage};
    }
  }
  std::map<std::string, std::string> names;
  for (std::size_t d = 0; d < stages.size(); ++d) {
    if (stages[d].empty()) continue;
    const std::int32_t first = *stages[d].begin();
    names[processes[d]] =
        both_ways ? fmt::format("{} (stages {}/{})", processes[d], first, last - first)
                  : fmt::format("{} ({} {})", processes[d], stages[d].size() > 1 ? "stages" : "stage",
                                fmt::join(stages[d], ", "));
  }
  for (std::string& process : processes) {
    const auto named = names.find(process);
    if (named != names.end()) process = named->second;
  }
}

}  // namespace

std::vector<std::string> owners_of_lanes(const SimulatedPart& part) {
  std::vector<std::string> processes = processes_of_lanes(part.topology());
  name_stages(part, processes);
  return processes;
}

std::string trace_of(const SimulatedPart& part) {
  const TaskGraph& tasks = part.task_graph();
  const Topology& topology = part.topology();
  const std::vector<std::string> processes = owners_of_lanes(part);
  const auto communicates = [&](TaskId t) { return is_communication(tasks.labels[t.index()].kind); };
  TraceLabels labels;
  labels.process = [&](LaneId lane) { return processes[lane.index()]; };
  labels.thread = [&](LaneId lane) {
    return lane.index() < topology.num_devices() ? "compute" : topology.lane_name(lane);
  };
  labels.task = [&](TaskId t) { return describe(tasks.labels[t.index()], part.graph(), topology); };
  labels.category = [&](TaskId t) { return std::string(name_of(tasks.labels[t.index()].kind)); };
  labels.args = [&](TaskId t) {
    std::vector<std::pair<std::string, std::string>> args{{"task", std::to_string(t.value)}};
    const TaskLabel& label = tasks.labels[t.index()];
    if (label.microbatch >= 0) args.emplace_back("microbatch", std::to_string(label.microbatch + 1));
    if (label.op.valid() && part.contents().options().pipeline)
      args.emplace_back("stage", std::to_string(part.contents().stage_of(label.op)));
    if (communicates(t)) args.emplace_back("size", pretty(label.size));
    return args;
  };
  labels.is_flow = [&](TaskId before, TaskId after) { return communicates(before) != communicates(after); };
  const auto too_many = [&] {
    return out_of_memory(fmt::format("writing the trace of {} tasks", tasks.dag.num_tasks()),
                         "Take fewer microbatches (--microbatches) or devices");
  };
  return with_memory(too_many, [&] {
    std::ostringstream out;
    out.exceptions(std::ios::badbit);  // what can't be kept would be left out without a word
    write_trace(out, tasks.dag, part.timeline(), labels);
    return std::move(out).str();
  });
}

namespace {

// The critical path's time with tasks that differ in their microbatch only.
struct CriticalPart {
  TaskId first;
  Nanoseconds time = 0;
  std::int64_t steps = 0;
};

}  // namespace

std::string critical_steps_text(const SimulatedPart& part, const BoundStrategy& strategy,
                                const CriticalPath& path, std::size_t most) {
  const TaskNames names(part, strategy);
  const auto& labels = part.labels();
  using Key = std::tuple<TaskKind, OperatorId, TensorId, DeviceId, DeviceId, Collective>;
  std::map<Key, CriticalPart> parts;
  for (const CriticalStep& s : path.steps) {
    const TaskLabel& l = labels[s.task.index()];
    CriticalPart& of =
        parts.try_emplace({l.kind, l.op, l.tensor, l.device, l.peer, l.collective}, CriticalPart{s.task})
            .first->second;
    of.time += part.time_spent(s.from, s.until);
    of.steps += part.times(s.from);
  }
  std::vector<CriticalPart> longest;
  for (const auto& [key, of] : parts) longest.push_back(of);
  std::ranges::stable_sort(longest, std::greater<>(), &CriticalPart::time);
  const bool often = std::ranges::any_of(longest, [](const CriticalPart& p) { return p.steps > 1; });
  std::vector<Table::Column> columns{{"time", Align::Right}, {"share", Align::Right}};
  if (often) columns.push_back({"steps", Align::Right});
  columns.push_back({"longest parts of the critical path"});
  Table table(columns);
  for (std::size_t i = 0; i < std::min(most, longest.size()); ++i) {
    const CriticalPart& of = longest[i];
    std::vector<std::string> row{pretty(to_seconds(of.time)), percent(static_cast<double>(of.time) /
                                                                      static_cast<double>(part.makespan()))};
    if (often) row.push_back(std::to_string(of.steps));
    row.push_back(names.without_microbatch(of.first));
    table.add(row);
  }
  return table.str(2);
}

}  // namespace pipesim

#include "tools/plan_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "sim/base/errors.h"
#include "sim/explain.h"
#include "sim/trace.h"
#include "tools/figures.h"
#include "tools/table.h"

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
void name_stages(Evaluator& e, std::vector<std::string>& processes) {
  const std::optional<Pipeline>& pipeline = e.builder().options().pipeline;
  if (!pipeline) return;
  const bool both_ways = schedule_kind(pipeline->schedule).both_ways;
  const std::int32_t last = pipeline->num_stages() - 1;
  std::vector<std::set<std::int32_t>> stages(e.topology().num_devices());
  for (const TaskLabel& label : e.task_graph().labels) {
    if (!label.op.valid() || is_communication(label.kind)) continue;
    const std::int32_t stage = e.builder().stage_of(label.op);
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

std::string where(const TaskLabel& label, const Topology& topology) {
  return is_communication(label.kind) ? "" : " on " + topology.device(label.device).name;
}

std::string full_text(const Evaluator& e, TaskId task) {
  const TaskLabel& label = e.task_graph().labels[task.index()];
  return describe(label, e.graph(), e.topology()) + where(label, e.topology());
}

TaskId find_task(const Evaluator& e, const std::string& which) {
  const std::size_t tasks = e.task_graph().dag.num_tasks();
  std::size_t id = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), id);
  if (error == std::errc{} && end == which.data() + which.size()) {
    if (id < tasks) return TaskId(id);
    throw InputError(fmt::format("there is no task {}; the plan has tasks 0 to {}", which, tasks - 1));
  }
  for (std::size_t t = 0; t < tasks; ++t) {
    if (full_text(e, TaskId(t)).find(which) != std::string::npos) return TaskId(t);
  }
  throw InputError(fmt::format("no task of the plan is called \"{}\"; tasks read like \"{}\"", which,
                               full_text(e, TaskId(0))));
}

std::string cause_text(const Evaluator& e, const Explanation& why) {
  switch (why.cause) {
    case Cause::Nothing:
      return "nothing was in its way";
    case Cause::Input:
      return "waited for its input from the next line";
    case Cause::Lane:
      return fmt::format("was ready at {} and waited for {}, held by the next line",
                         pretty(to_seconds(why.ready)), e.topology().lane_name(why.lane));
  }
  return "";
}

}  // namespace

std::string trace_of(Evaluator& evaluator) {
  const TaskGraph& tasks = evaluator.task_graph();
  const Topology& topology = evaluator.topology();
  std::vector<std::string> processes = processes_of_lanes(topology);
  name_stages(evaluator, processes);
  const auto communicates = [&](TaskId t) { return is_communication(tasks.labels[t.index()].kind); };
  TraceLabels labels;
  labels.process = [&](LaneId lane) { return processes[lane.index()]; };
  labels.thread = [&](LaneId lane) {
    return lane.index() < topology.num_devices() ? "compute" : topology.lane_name(lane);
  };
  labels.task = [&](TaskId t) { return describe(tasks.labels[t.index()], evaluator.graph(), topology); };
  labels.category = [&](TaskId t) { return std::string(name_of(tasks.labels[t.index()].kind)); };
  labels.args = [&](TaskId t) {
    std::vector<std::pair<std::string, std::string>> args{{"task", std::to_string(t.value)}};
    const TaskLabel& label = tasks.labels[t.index()];
    if (label.microbatch >= 0) args.emplace_back("microbatch", std::to_string(label.microbatch + 1));
    if (label.op.valid() && evaluator.builder().options().pipeline)
      args.emplace_back("stage", std::to_string(evaluator.builder().stage_of(label.op)));
    if (communicates(t)) args.emplace_back("size", pretty(label.size));
    return args;
  };
  labels.is_flow = [&](TaskId before, TaskId after) { return communicates(before) != communicates(after); };
  std::ostringstream out;
  write_trace(out, tasks.dag, evaluator.timeline(), labels);
  return std::move(out).str();
}

std::string explanation_of(const Evaluator& evaluator, const std::string& which, std::size_t most) {
  const Timeline& timeline = evaluator.timeline();
  const Explainer explainer(evaluator.task_graph().dag, timeline);
  TaskId task = find_task(evaluator, which);
  Table table({{"start", Align::Right}, {"end", Align::Right}, {"task"}, {"why then"}});
  std::size_t steps = 0;
  while (task.valid() && steps++ < most) {
    const Explanation why = explainer.explain(task);
    table.add({pretty(to_seconds(timeline.start[task.index()])),
               pretty(to_seconds(timeline.end[task.index()])), full_text(evaluator, task),
               cause_text(evaluator, why)});
    task = why.task;
  }
  return table.str() + (task.valid() ? fmt::format("… and so on; the first {} steps are shown\n", most) : "");
}

std::string critical_steps_text(const Evaluator& evaluator, std::size_t most) {
  const TaskGraph& tasks = evaluator.task_graph();
  CriticalPath path = critical_path(tasks.dag, evaluator.timeline(),
                                    [&](TaskId t) { return is_communication(tasks.labels[t.index()].kind); });
  std::stable_sort(path.steps.begin(), path.steps.end(), [](const CriticalStep& a, const CriticalStep& b) {
    return a.until - a.from > b.until - b.from;
  });
  Table table({{"time", Align::Right}, {"share", Align::Right}, {"longest steps of the critical path"}});
  for (std::size_t i = 0; i < std::min(most, path.steps.size()); ++i) {
    const CriticalStep& s = path.steps[i];
    table.add(
        {pretty(to_seconds(s.until - s.from)),
         percent(static_cast<double>(s.until - s.from) / static_cast<double>(evaluator.timeline().makespan)),
         full_text(evaluator, s.task)});
  }
  return table.str(2);
}

}  // namespace pipesim

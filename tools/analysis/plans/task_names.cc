#include "tools/analysis/plans/task_names.h"

#include <algorithm>

namespace pipesim {
namespace {

const PassWork& work_of(const BoundOperator& bound, TaskKind pass) {
  if (pass == TaskKind::BackwardInput) return bound.backward_input;
  return pass == TaskKind::BackwardWeight ? bound.backward_weight : bound.forward;
}

bool follow_each_other(std::span<const DeviceId> devices) {
  return std::ranges::adjacent_find(devices, [](DeviceId a, DeviceId b) { return b.value != a.value + 1; }) ==
         devices.end();
}

}  // namespace

std::vector<std::span<const DeviceId>> groups_of_tasks(const SimulatedPart& part,
                                                       const BoundStrategy& strategy, GroupMembers members) {
  const Folding* const folding = members == GroupMembers::Real ? part.folding() : nullptr;
  const std::vector<TaskLabel>& labels = part.task_graph().labels;
  std::vector<std::span<const DeviceId>> groups(labels.size());
  for (const Wiring& wiring : part.expanded().wirings()) {
    const CommunicationPlan& plan = folding ? folding->whole(*wiring.plan) : *wiring.plan;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const std::size_t task = folding ? static_cast<std::size_t>(folding->tasks_of(plan)[i]) : i;
      std::span<const DeviceId>& group = groups[wiring.task(task).index()];
      if (group.empty()) group = plan.tasks[i].group;
    }
  }
  TaskKind pass = TaskKind::Forward;  // whose statistics the next inner reduces add up
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const TaskLabel& label = labels[t];
    if (is_pass(label.kind)) pass = label.kind;
    if (!is_inner(label.kind)) continue;
    const BoundStrategy& used = part.contents().strategy_of(std::max(0, label.microbatch), strategy);
    const PassWork& work = work_of(*used[label.op.index()], pass);
    const auto first = std::ranges::lower_bound(work.exchanges, label.stage, {}, &InnerExchange::step);
    for (auto exchange = first; exchange != work.exchanges.end() && exchange->step == label.stage;
         ++exchange) {
      if (exchange->task.group.front() == label.device) groups[t] = exchange->task.group;
    }
  }
  return groups;
}

std::string devices_in_words(std::span<const DeviceId> devices, const Topology& topology) {
  constexpr std::size_t kMostNamed = 4, kBeforeTheLast = 2;
  const auto name = [&](std::size_t i) { return topology.device(devices[i]).name; };
  if (devices.empty()) return "";
  if (devices.size() > 1 && follow_each_other(devices)) return name(0) + " to " + name(devices.size() - 1);
  const bool all = devices.size() <= kMostNamed;
  std::string text = name(0);
  for (std::size_t i = 1; i < (all ? devices.size() : kBeforeTheLast); ++i) text += ", " + name(i);
  return all ? text : text + ", … " + name(devices.size() - 1);
}

TaskNames::TaskNames(const SimulatedPart& part, const BoundStrategy& strategy)
    : part_(part), groups_(groups_of_tasks(part, strategy, GroupMembers::Real)) {}

std::string TaskNames::operator()(TaskId task) const {
  return name(task, part_.task_graph().labels[task.index()]);
}

std::string TaskNames::without_microbatch(TaskId task) const {
  TaskLabel label = part_.task_graph().labels[task.index()];
  label.microbatch = -1;
  return name(task, label);
}

std::string TaskNames::name(TaskId task, TaskLabel label) const {
  const Topology& topology = part_.topology();
  const std::span<const DeviceId> group = groups_[task.index()];
  if (!group.empty()) {
    label.group_size = static_cast<std::int32_t>(group.size());
    label.device = group.front();
    if (label.collective == Collective::Send) label.peer = group.back();
  }
  const std::string text = describe(label, part_.graph(), topology);
  if (!is_communication(label.kind)) return text + " on " + topology.device(label.device).name;
  if (label.collective == Collective::Send || group.empty()) return text;
  return text + ", " + devices_in_words(group, topology);
}

}  // namespace pipesim

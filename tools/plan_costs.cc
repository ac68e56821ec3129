#include "tools/plan_costs.h"

#include <algorithm>
#include <tuple>

namespace pipesim {
namespace {

// Invalid for barriers, which are nobody's.
OperatorId owner_of(const TaskLabel& label, const OperatorGraph& graph) {
  if (label.op.valid() || !label.tensor.valid()) return label.op;
  const auto readers = graph.consumers(label.tensor);
  return readers.empty() ? OperatorId() : readers.front().op;
}

OperatorCosts costs_of(const TaskLabel& label, LaneUses lanes, std::size_t devices) {
  OperatorCosts costs;
  const bool communicates = is_communication(label.kind);
  if (communicates) costs.moved = Bytes(bytes_on_links(label.collective, label.group_size, label.size));
  for (const LaneUse use : lanes) {
    if (use.lane.index() >= devices) costs.on_links += use.hold;
    if (use.lane.index() < devices && !communicates) costs.compute += use.hold;
  }
  return costs;
}

}  // namespace

OperatorCosts& OperatorCosts::operator+=(const OperatorCosts& o) {
  compute += o.compute;
  on_links += o.on_links;
  moved += o.moved;
  critical += o.critical;
  return *this;
}

PlanCosts plan_costs(Evaluator& evaluator, const BoundStrategy& strategy) {
  PlanCosts costs;
  costs.report = report_plan(evaluator, strategy);
  costs.operators.resize(strategy.size());
  const TaskGraph& tasks = evaluator.task_graph();
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    const OperatorCosts task =
        costs_of(label, tasks.dag.lanes(TaskId(t)), evaluator.topology().num_devices());
    const OperatorId owner = owner_of(label, evaluator.graph());
    if (owner.valid()) costs.operators[owner.index()] += task;
    const auto kind = std::find(kCommunicationKinds.begin(), kCommunicationKinds.end(), label.kind);
    if (kind != kCommunicationKinds.end())
      costs.moved[static_cast<std::size_t>(kind - kCommunicationKinds.begin())] += task.moved;
  }
  for (const CriticalStep& step : costs.report.critical.steps) {
    const OperatorId owner = owner_of(tasks.labels[step.task.index()], evaluator.graph());
    if (owner.valid()) costs.operators[owner.index()].critical += step.until - step.from;
  }
  return costs;
}

std::vector<OperatorId> most_critical_first(const std::vector<OperatorCosts>& operators) {
  std::vector<OperatorId> order;
  for (std::size_t i = 0; i < operators.size(); ++i) order.emplace_back(i);
  const auto rank = [&](OperatorId op) {
    const OperatorCosts& costs = operators[op.index()];
    return std::tuple(-costs.critical, -costs.compute, op);
  };
  std::sort(order.begin(), order.end(), [&](OperatorId a, OperatorId b) { return rank(a) < rank(b); });
  return order;
}

}  // namespace pipesim

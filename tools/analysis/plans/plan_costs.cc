#include "tools/analysis/plans/plan_costs.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace pipesim {
namespace {

// Invalid for barriers, which are nobody's.
OperatorId owner_of(const TaskLabel& label, const OperatorGraph& graph) {
  if (label.op.valid() || !label.tensor.valid()) return label.op;
  const auto readers = graph.consumers(label.tensor);
  return readers.empty() ? OperatorId() : readers.front().op;
}

// Position in kCommunicationKinds.
std::optional<std::size_t> communication_kind(TaskKind kind) {
  const auto found = std::ranges::find(kCommunicationKinds, kind);
  if (found == kCommunicationKinds.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kCommunicationKinds.begin());
}

OperatorCosts costs_of(const TaskLabel& label, LaneUses lanes, std::size_t devices) {
  OperatorCosts costs;
  const bool communicates = is_communication(label.kind);
  if (communicates) costs.moved = Bytes(bytes_on_links(label.collective, label.group_size, label.size));
  for (const LaneUse use : lanes) {
    if (use.lane.index() >= devices) costs.on_links += use.hold;
    if (use.lane.index() < devices && !communicates) costs.compute += use.hold;
  }
  if (label.kind == TaskKind::Update) costs.update = costs.compute;
  if (const auto kind = communication_kind(label.kind)) costs.moved_by[*kind] = costs.moved;
  return costs;
}

}  // namespace

OperatorCosts& OperatorCosts::operator+=(const OperatorCosts& o) {
  compute += o.compute;
  on_links += o.on_links;
  moved += o.moved;
  critical += o.critical;
  update += o.update;
  for (std::size_t k = 0; k < moved_by.size(); ++k) {
    moved_by[k] += o.moved_by[k];
    critical_by[k] += o.critical_by[k];
  }
  return *this;
}

OperatorCosts& OperatorCosts::operator-=(const OperatorCosts& o) {
  compute -= o.compute;
  on_links -= o.on_links;
  moved -= o.moved;
  critical -= o.critical;
  update -= o.update;
  for (std::size_t k = 0; k < moved_by.size(); ++k) {
    moved_by[k] -= o.moved_by[k];
    critical_by[k] -= o.critical_by[k];
  }
  return *this;
}

PlanCosts plan_costs(Evaluator& evaluator, const BoundStrategy& strategy) {
  PlanCosts costs;
  costs.report = report_plan_in_full(evaluator, strategy);
  costs.operators.resize(strategy.size());
  costs.tensors.resize(evaluator.graph().tensors().size());
  const SimulatedPart part = *std::exchange(costs.report.part, std::nullopt);
  const TaskGraph& tasks = part.task_graph();
  const auto count = [&](const TaskLabel& label, const OperatorCosts& task) {
    const OperatorId owner = owner_of(label, evaluator.graph());
    if (!owner.valid()) return;
    costs.operators[owner.index()] += task;
    if (!moves_activations(label.kind) && label.kind != TaskKind::BackwardTransfer) return;
    TensorCosts& tensor = costs.tensors[label.tensor.index()];
    tensor.counts_for = owner;
    tensor.costs += task;
  };
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    const OperatorCosts task =
        costs_of(label, tasks.dag.lanes(TaskId(t)), evaluator.topology().num_devices());
    count(label, task);
    for (std::size_t k = 0; k < costs.moved.size(); ++k) costs.moved[k] += task.moved_by[k];
  }
  for (const CriticalStep& step : costs.report.critical.steps) {
    const TaskLabel& label = tasks.labels[step.task.index()];
    OperatorCosts on_path;
    on_path.critical = step.until - step.from;
    if (const auto kind = communication_kind(label.kind)) on_path.critical_by[*kind] = on_path.critical;
    count(label, on_path);
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

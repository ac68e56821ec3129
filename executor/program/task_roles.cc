#include "executor/program/task_roles.h"

#include <span>

#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {

RoleTable::RoleTable(const ExpandedStrategy& expanded) : roles_(expanded.dag().num_tasks()) {
  const PlanContents& contents = expanded.contents();
  const BoundStrategy& strategy = expanded.strategy();
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const OperatorId op(i);
    for (std::int32_t m = 0; m < contents.options().microbatches; ++m) {
      const OperatorTasks& tasks = expanded.tasks_of(op, m);
      const BoundOperator& bound = *contents.strategy_of(m, strategy)[i];
      add_pass(op, m, bound, tasks.forward, TaskKind::Forward);
      add_pass(op, m, bound, tasks.recompute, TaskKind::Recompute);
      add_pass(op, m, bound, tasks.backward_input, TaskKind::BackwardInput);
      add_pass(op, m, bound, tasks.backward_weight, TaskKind::BackwardWeight);
      for (std::size_t d = 0; d < tasks.update_devices().size(); ++d) {
        roles_[tasks.update.index() + d] = {
            TaskKind::Update, op, {tasks.update_devices()[d]}, Pass::BackwardWeight, m};
      }
    }
  }
  for (std::size_t w = 0; w < expanded.wirings().size(); ++w) add_wiring(expanded.wirings()[w], w);
  for (const StepBarrier& b : expanded.barriers())
    roles_[b.task.index()] = {TaskKind::Barrier, {}, {b.device}};
  for (const Gate& g : expanded.gates()) roles_[g.task.index()] = {TaskKind::Barrier, g.gathered, {g.device}};
}

void RoleTable::add_pass(OperatorId op, std::int32_t microbatch, const BoundOperator& bound, TaskId first,
                         TaskKind kind) {
  if (!first.valid()) return;
  const bool input = kind == TaskKind::BackwardInput, weight = kind == TaskKind::BackwardWeight;
  const PassWork& work = input ? bound.backward_input : weight ? bound.backward_weight : bound.forward;
  const Pass pass = input ? Pass::BackwardInput : weight ? Pass::BackwardWeight : Pass::Forward;
  const bool second = kind != TaskKind::Forward;
  const std::size_t shards = bound.config.devices.size();
  for (std::size_t i = 0; i < work.stages() * shards; ++i) {
    const auto stage = static_cast<std::int32_t>(i / shards), k = static_cast<std::int32_t>(i % shards);
    roles_[first.index() + i] = {kind, op,    {bound.config.devices[i % shards]}, pass, microbatch, stage,
                                 k,    second};
  }
  std::size_t next = first.index() + work.stages() * shards;
  for (const InnerExchange& e : work.exchanges)
    roles_[next++] = {kind_of(e), op, e.task.group, pass, microbatch, e.step, 0, second, &e};
}

void RoleTable::add_wiring(const Wiring& wiring, std::size_t number) {
  for (std::size_t i = 0; i < wiring.plan->tasks.size(); ++i) {
    TaskRole& role = roles_[wiring.first_task.index() + i];
    role.kind = wiring.kind;
    role.wiring = number;
    role.index = i;
    const std::span<const DeviceId> group = wiring.plan->tasks[i].group;
    role.devices.assign(group.begin(), group.end());
  }
}

}  // namespace pipesim

#include "taskgraph/memory/life_tasks.h"

#include <algorithm>

namespace pipesim {

TaskList LifeTasks::backward_end(OperatorId op, std::int32_t shard) const {
  const BoundOperator& b = *(*strategy_)[op.index()];
  const OperatorTasks& t = tasks_of(op);
  const std::size_t shards = b.config.devices.size();
  TaskList last;
  if (t.backward_input.valid())
    last.push_back(task(t.backward_input, b.backward_input, SIZE_MAX, shards, shard));
  if (t.backward_weight.valid())
    last.push_back(task(t.backward_weight, b.backward_weight, SIZE_MAX, shards, shard));
  return last;
}

bool LifeTasks::copies_gradient(OperatorId op) const {
  const std::optional<Casts>& casts = (*strategy_)[op.index()]->op->casts;
  const OperatorTasks& tasks = tasks_of(op);
  return casts && !casts->gradient.empty() && tasks.backward_input.valid() && tasks.backward_weight.valid();
}

TaskList LifeTasks::gradient_read_end(OperatorId op, std::int32_t shard) const {
  if (!copies_gradient(op)) return backward_end(op, shard);
  const BoundOperator& b = *(*strategy_)[op.index()];
  return {task(tasks_of(op).backward_input, b.backward_input, SIZE_MAX, b.config.devices.size(), shard)};
}

TaskList LifeTasks::forward_end(OperatorId op, std::int32_t shard, bool again) const {
  const BoundOperator& b = *(*strategy_)[op.index()];
  const OperatorTasks& tasks = tasks_of(op);
  return {task(again ? tasks.recompute : tasks.forward, b.forward, SIZE_MAX, b.config.devices.size(), shard)};
}

TaskList LifeTasks::read_until(UseRef use, std::int32_t shard, const Wiring& wiring) const {
  const bool first = wiring.kind == TaskKind::ForwardTransfer;
  TaskList until = first ? forward_end(use.op, shard) : TaskList();
  if (first && read_once(use, wiring)) return until;
  const bool saved = contents_.graph().op(use.op).uses[static_cast<std::size_t>(use.use)].saved;
  if (contents_.recomputation().again(use.op) && !runs_again_from_copy(use))
    append(until, forward_end(use.op, shard, true));
  if (saved && !copied_whole(use, wiring)) append(until, backward_end(use.op, shard));
  return until;
}

bool LifeTasks::read_once(UseRef use, const Wiring& wiring) const {
  return wiring.kind == TaskKind::ForwardTransfer &&
         (contents_.recomputation().reads_again(use) || wiring.read_in == ReadIn::Forward);
}

bool LifeTasks::runs_again_from_copy(UseRef use) const {
  return contents_.recomputation().runs_again_from_copy(use);
}

bool LifeTasks::copied_whole(UseRef use, const Wiring& wiring) const {
  return contents_.recomputation().keeps_copy(use) && !read_once(use, wiring) &&
         !copied_in_pieces(use, wiring);
}

bool LifeTasks::copied_in_pieces(UseRef use, const Wiring& wiring) const {
  return wiring.kind == TaskKind::RecomputeTransfer && !contents_.recomputation().again(use.op) &&
         contents_.recomputation().keeps_copy(use);
}

TaskList LifeTasks::first_read_until(const Wiring& w, DeviceId d) const {
  TaskList until;
  for (const UseRef c : w.destinations) {
    const std::int32_t k = (*strategy_)[c.op.index()]->shard_of_device[d.index()];
    if (k < 0 || copied_in_pieces(c, w)) continue;
    const bool first = w.kind == TaskKind::ForwardTransfer;
    const bool runs = first || contents_.recomputation().again(c.op);
    append(until, runs ? forward_end(c.op, k, !first) : backward_end(c.op, k));
  }
  return until;
}

bool LifeTasks::reads_on(const Wiring& w, DeviceId d) const {
  return std::ranges::any_of(
      w.destinations, [&](UseRef c) { return (*strategy_)[c.op.index()]->shard_of_device[d.index()] >= 0; });
}

TaskList LifeTasks::first_arrival(const Wiring& w, DeviceId device) const {
  TaskList arrivals;
  for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
    const auto to = receivers(w.plan->tasks[i].kind, w.plan->tasks[i].group);
    if (std::find(to.begin(), to.end(), device) != to.end()) arrivals.push_back(w.task(i));
  }
  return arrivals;
}

TaskList LifeTasks::first_read(OperatorId op, std::int32_t shard, ReadIn passes) const {
  const OperatorTasks& tasks = tasks_of(op);
  if (passes != ReadIn::Backward) return {task_at(tasks.forward, shard)};
  TaskList reads;
  for (const TaskId pass : {tasks.recompute, tasks.backward_input, tasks.backward_weight}) {
    if (pass.valid()) reads.push_back(task_at(pass, shard));
  }
  return reads;
}

LifeSpan LifeTasks::gradient_life(const Wiring& w, const std::vector<UseRef>& consumers,
                                  DeviceId device) const {
  LifeSpan life;
  for (const UseRef c : consumers) {
    const BoundOperator& consumer = *(*strategy_)[c.op.index()];
    const std::int32_t k = consumer.shard_of_device[device.index()];
    const OperatorTasks& tasks = tasks_of(c.op);
    const bool apart = w.kind == TaskKind::GradientSync && tasks.backward_weight.valid();
    const TaskId first = apart ? tasks.backward_weight : tasks.backward_input;
    const PassWork& work = apart ? consumer.backward_weight : consumer.backward_input;
    const std::size_t shards = consumer.config.devices.size();
    life.cover({task(first, work, 0, shards, k)}, {task(first, work, SIZE_MAX, shards, k)});
  }
  for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
    const auto from = contributors(w.plan->tasks[i].kind, w.plan->tasks[i].group);
    if (std::find(from.begin(), from.end(), device) != from.end()) life.ends.push_back(w.task(i));
  }
  if (w.destinations.empty()) return life;
  const OperatorId producer = w.destinations.front().op;
  const std::int32_t p = (*strategy_)[producer.index()]->shard_of_device[device.index()];
  const auto& local = w.plan->local;
  if (p >= 0 && std::binary_search(local.begin(), local.end(), device))
    append(life.ends, gradient_read_end(producer, p));
  return life;
}

}  // namespace pipesim

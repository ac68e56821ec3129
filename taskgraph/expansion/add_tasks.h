#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/expansion/task_keys.h"

namespace pipesim {

// Adds the tasks of an operator, or of one transfer of a tensor, and their edges, to a TaskDag or an
// EditableDag.

/// The number of tasks of a pass. Stage by stage there is a task per shard; then come the exchanges between
/// them.
inline std::size_t num_tasks(const BoundOperator& bound, const PassWork& work) {
  return work.present ? work.stages() * bound.config.devices.size() + work.exchanges.size() : 0;
}

/// What an exchange inside an operator is in the graph.
inline TaskKind kind_of(const InnerExchange& exchange) {
  return exchange.content == InnerExchange::Content::Statistic ? TaskKind::InnerReduce : TaskKind::Rotation;
}

/// Adds the tasks of a pass. Returns the first one; invalid where the pass is absent.
template <class Dag>
TaskId add_pass(Dag& dag, OperatorId op, const BoundOperator& bound, TaskKind kind, const PassWork& work,
                std::int32_t microbatch) {
  if (!work.present) return {};
  const std::vector<DeviceId>& devices = bound.config.devices;
  TaskId first;
  for (std::size_t stage = 0; stage < work.stages(); ++stage) {
    for (std::size_t k = 0; k < devices.size(); ++k) {
      const TaskId task = dag.add_task(compute_key(kind, microbatch, op, stage, devices[k]),
                                       work.durations[stage * devices.size() + k], LaneId(devices[k].value));
      if (!first.valid()) first = task;
    }
  }
  for (const InnerExchange& e : work.exchanges) {
    dag.add_task(inner_exchange_key(kind_of(e), kind, microbatch, op, e.step, e.task.group.front()),
                 e.task.duration, std::span<const LaneUse>(e.task.lanes));
  }
  return first;
}

/// The task `number` ids behind another.
inline TaskId task_at(TaskId first, std::int32_t number) { return TaskId(first.value + number); }

/// The task of a pass's shard in one stage.
inline TaskId shard_task(TaskId first, const BoundOperator& bound, std::size_t stage, std::size_t shard) {
  return TaskId(first.index() + stage * bound.config.devices.size() + shard);
}

/// The first task of a pass's last stage, which has a task per shard.
inline TaskId last_stage(TaskId first, const BoundOperator& bound, const PassWork& work) {
  return shard_task(first, bound, work.stages() - 1, 0);
}

/// Adds the edges between the stages of a pass and the exchanges between them.
template <class Dag>
void connect_stages(Dag& dag, const PassWork& work, TaskId first) {
  if (!first.valid()) return;
  for (const InnerWait w : work.waits) dag.add_edge(task_at(first, w.before), task_at(first, w.after));
}

/// Adds the edges inside an operator. A shard's backward needs what forward, or its second run, saved. The
/// arrival of gradients alone is not enough: the loss gets none, nor do shards that nobody reads, and other
/// shards may have read a copy.
template <class Dag>
void connect_operator(Dag& dag, const BoundOperator& bound, const OperatorTasks& tasks) {
  connect_stages(dag, bound.forward, tasks.forward);
  connect_stages(dag, bound.backward_input, tasks.backward_input);
  connect_stages(dag, bound.backward_weight, tasks.backward_weight);
  connect_stages(dag, bound.forward, tasks.recompute);
  const TaskId saver = tasks.recompute.valid() ? tasks.recompute : tasks.forward;
  const std::size_t last = last_stage(saver, bound, bound.forward).index();
  for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
    for (std::size_t k = 0; first.valid() && k < bound.config.devices.size(); ++k) {
      dag.add_edge(TaskId(last + k), TaskId(first.index() + k));
    }
  }
}

/// How much a transfer and compute beside it hold each other up.
struct BesideCompute {
  double share = 1;     ///< of the plan's times, which products do not hide
  bool blocks = false;  ///< devices compute nothing while they send or receive messages
  bool alone = false;   ///< devices compute nothing while they take part in any of it
};

/// Lists the lanes that a task of a plan holds.
class TransferLanes {
 public:
  explicit TransferLanes(BesideCompute beside) : beside_(beside) {}
  [[nodiscard]] Nanoseconds shortened(Nanoseconds time) const {
    return beside_.share < 1 ? static_cast<Nanoseconds>(std::ceil(static_cast<double>(time) * beside_.share))
                             : time;
  }
  /// Valid until the next call.
  [[nodiscard]] std::span<const LaneUse> of(const CommunicationPlan& plan, std::size_t task) {
    const PlanExpansion::Task& t = plan.expansion.tasks[task];
    const std::span<const LaneUse> whole(t.lanes, t.num_lanes);
    const bool blocks = beside_.alone || (beside_.blocks && plan.tasks[task].kind == Collective::Send);
    if (beside_.share == 1 && !blocks) return whole;
    lanes_.clear();
    if (blocks) {
      for (const DeviceId device : plan.tasks[task].group)
        lanes_.push_back({LaneId(device.value), shortened(t.duration)});
    }
    const std::size_t blocked = lanes_.size();
    for (const LaneUse use : whole) {
      // A device that cannot compute and communicate at once is among the lanes of the plan as well.
      const auto twin = std::ranges::find(std::span(lanes_).first(blocked), use.lane, &LaneUse::lane);
      if (twin == std::span(lanes_).first(blocked).end()) lanes_.push_back({use.lane, shortened(use.hold)});
    }
    return lanes_;
  }

 private:
  BesideCompute beside_;
  std::vector<LaneUse> lanes_;
};

/// Adds the tasks of a plan. Returns the first one; invalid if there is none. `key`: see transfer_key_high.
template <class Dag>
TaskId add_transfers(Dag& dag, const CommunicationPlan& plan, std::uint64_t key, BesideCompute beside = {}) {
  TaskId first;
  TransferLanes lanes(beside);
  for (std::size_t i = 0; i < plan.expansion.tasks.size(); ++i) {
    const PlanExpansion::Task& t = plan.expansion.tasks[i];
    const TaskId task = dag.add_task({key, t.key}, lanes.shortened(t.duration), lanes.of(plan, i));
    if (!first.valid()) first = task;
  }
  return first;
}

/// Adds the edges between the tasks of a plan.
template <class Dag>
void connect_transfers(Dag& dag, const CommunicationPlan& plan, TaskId first) {
  for (const PlanExpansion::Wait w : plan.expansion.waits)
    dag.add_edge(task_at(first, w.before), task_at(first, w.after));
}

/// Adds edges from the tasks first_maker + shard of a source (the given term) to the transfers of its data.
template <class Dag>
void connect_source(Dag& dag, const CommunicationPlan& plan, TaskId first, std::int32_t term,
                    TaskId first_maker, std::span<const std::int32_t> maker_of_device) {
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    if (c.term >= 0 && c.term != term) continue;
    const std::int32_t maker = maker_of_device[c.device.index()];
    if (maker >= 0) dag.add_edge(task_at(first_maker, maker), task_at(first, c.task));
  }
}

/// Adds edges from the transfers to the tasks first_reader + reader on the devices that receive.
template <class Dag>
void connect_readers(Dag& dag, const CommunicationPlan& plan, TaskId first, TaskId first_reader,
                     std::span<const std::int32_t> reader_of_device) {
  for (const PlanExpansion::Arrival a : plan.expansion.arrivals) {
    const std::int32_t reader = reader_of_device[a.device.index()];
    if (reader >= 0) dag.add_edge(task_at(first, a.task), task_at(first_reader, reader));
  }
}

/// Adds edges from makers to readers on devices that already hold the data, where nothing is transferred.
template <class Dag>
void connect_local(Dag& dag, const CommunicationPlan& plan, TaskId first_maker,
                   std::span<const std::int32_t> maker_of_device, TaskId first_reader,
                   std::span<const std::int32_t> reader_of_device) {
  for (const DeviceId d : plan.local) {
    const std::int32_t maker = maker_of_device[d.index()], reader = reader_of_device[d.index()];
    if (maker < 0 || reader < 0) continue;
    dag.add_edge(task_at(first_maker, maker), task_at(first_reader, reader));
  }
}

/// The first of an operator's tasks, one per shard, that make the data of a wiring of this kind.
inline TaskId making_tasks(TaskKind kind, const BoundOperator& bound, const OperatorTasks& tasks) {
  if (kind == TaskKind::ForwardTransfer) return last_stage(tasks.forward, bound, bound.forward);
  if (kind == TaskKind::RecomputeTransfer)
    return last_stage(tasks.recompute.valid() ? tasks.recompute : tasks.forward, bound, bound.forward);
  if (kind == TaskKind::GradientSync && tasks.backward_weight.valid())
    return last_stage(tasks.backward_weight, bound, bound.backward_weight);
  return last_stage(tasks.backward_input, bound, bound.backward_input);
}

}  // namespace pipesim

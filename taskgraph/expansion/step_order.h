#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

/// A device's part of an operator.
struct OperatorShard {
  OperatorId op;
  std::size_t number = 0;
  std::int32_t way = 0;  ///< of microbatches whose numbers leave this remainder, see PlanContents::ways()
};

/// By device, in the order of operators; the way, which comes behind all others, adds to them.
inline void add_shards(const BoundStrategy& strategy, std::int32_t way,
                       std::vector<std::vector<OperatorShard>>& shards) {
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const std::vector<DeviceId>& devices = strategy[i]->config.devices;
    for (std::size_t k = 0; k < devices.size(); ++k)
      shards[devices[k].index()].push_back({OperatorId(i), k, way});
  }
}

/// Keeps a device's steps in order by barriers: edges from each task of one step to each of the next would be
/// too many. `steps`: all of the device, of which `together` come between barriers. With `to_update` there is
/// one after the last step, too, which is returned (see update_after_steps()). `Tasks` has
///   Dag& dag                                          to which edges are added
///   const OperatorTasks& of(OperatorId)               of the first microbatch, or
///   const OperatorTasks& of(OperatorId, way)          of the first that goes the way, if there are several
///   TaskId at(TaskId, std::int32_t microbatch)        a task of that, in another microbatch
///   std::int32_t stage_of(OperatorId)
///   TaskId add_barrier(std::size_t step, std::int32_t microbatch)
///   TaskId enter(const PipelineStep&, TaskId before)  if there is more to wait for before a step
template <class Tasks>
class StepOrder {
 public:
  StepOrder(Tasks tasks, const BoundStrategy& strategy) : StepOrder(tasks, {&strategy}) {}
  /// `ways`: the strategies of microbatches in turn.
  StepOrder(Tasks tasks, std::vector<const BoundStrategy*> ways) : tasks_(tasks), ways_(std::move(ways)) {}

  /// `before`: a task that ends before the first step, if there is one.
  TaskId connect(std::span<const OperatorShard> shards, std::span<const PipelineStep> steps,
                 std::size_t together, bool to_update, TaskId before = {}) {
    for (std::size_t n = 0; n < steps.size(); n += together) {
      const std::span<const PipelineStep> now = steps.subspan(n, together);
      const bool last = n + together == steps.size();
      const TaskId after =
          last && !to_update ? TaskId() : tasks_.add_barrier(n / together, now.front().microbatch);
      if constexpr (requires { tasks_.enter(now.front(), before); })
        before = tasks_.enter(now.front(), before);
      bool any = false;
      for (const OperatorShard& shard : of_way(shards, now.front().microbatch))
        any |= connect_shard(shard, now, before, after);
      if (!any && before.valid() && after.valid()) tasks_.dag.add_edge(before, after);
      before = after;
    }
    return before;
  }

 private:
  // Those that run the microbatch. Where there are several ways, barriers follow every step.
  [[nodiscard]] std::span<const OperatorShard> of_way(std::span<const OperatorShard> shards,
                                                      std::int32_t microbatch) const {
    const auto ways = static_cast<std::int32_t>(ways_.size());
    if (ways == 1) return shards;
    const std::int32_t way = microbatch % ways;
    return {std::ranges::lower_bound(shards, way, {}, &OperatorShard::way),
            std::ranges::upper_bound(shards, way, {}, &OperatorShard::way)};
  }

  // From the barrier before to the first tasks of the first step, and from the last tasks of the last step
  // that the shard has to the barrier after. False when it has none.
  bool connect_shard(const OperatorShard& shard, std::span<const PipelineStep> steps, TaskId before,
                     TaskId after) {
    const BoundOperator& bound = *(*ways_[static_cast<std::size_t>(shard.way)])[shard.op.index()];
    bool connected = false;
    for (std::size_t n = steps.size(); n-- > 0;) {
      const PipelineStep& step = steps[n];
      if (step.stage != tasks_.stage_of(shard.op)) continue;
      const OperatorTasks& tasks = first_tasks(shard);
      bool has_step = false;
      const auto task = [&](TaskId first, std::size_t stage) {
        return tasks_.at(shard_task(first, bound, stage, shard.number), step.microbatch);
      };
      const auto connect = [&](TaskId first, const PassWork& work) {
        if (!first.valid()) return;
        has_step = true;
        if (n == 0 && before.valid()) tasks_.dag.add_edge(before, task(first, 0));
        if (!connected && after.valid()) tasks_.dag.add_edge(task(first, work.stages() - 1), after);
      };
      const bool both = step.kind == StepKind::Backward;
      if (step.kind == StepKind::Forward) connect(tasks.forward, bound.forward);
      if (both || step.kind == StepKind::BackwardInput) connect(tasks.recompute, bound.forward);
      if (both || step.kind == StepKind::BackwardInput) connect(tasks.backward_input, bound.backward_input);
      if (both || step.kind == StepKind::BackwardWeight)
        connect(tasks.backward_weight, bound.backward_weight);
      connected |= has_step;
    }
    return connected;
  }

  const OperatorTasks& first_tasks(const OperatorShard& shard) {
    if constexpr (requires { tasks_.of(shard.op, shard.way); }) {
      return tasks_.of(shard.op, shard.way);
    } else {
      return tasks_.of(shard.op);
    }
  }

  Tasks tasks_;
  std::vector<const BoundStrategy*> ways_;
};

/// Devices of a pipeline update weights after all of their steps: an update between the operators of the last
/// backward would keep the stage before waiting. `done`: by device its last barrier; where there is none its
/// updates are left out. `expanded.tasks_of(OperatorId)` has the updates; calls connect(barrier, update).
template <class Expanded, class Connect>
void update_after_steps(const Expanded& expanded, const BoundStrategy& strategy, std::span<const TaskId> done,
                        Connect connect) {
  for (std::size_t op = 0; op < strategy.size(); ++op) {
    const OperatorTasks& tasks = expanded.tasks_of(OperatorId(op));
    if (!tasks.update.valid()) continue;
    for (std::size_t k = 0; k < tasks.update_devices.size(); ++k) {
      const TaskId last = done[tasks.update_devices[k].index()];
      if (last.valid()) connect(last, TaskId(tasks.update.index() + k));
    }
  }
}

}  // namespace pipesim

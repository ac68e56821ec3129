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
  std::int32_t way = 0;  ///< the microbatches whose numbers leave this remainder, see PlanContents::ways()
};

/// Adds the shards of one way to `shards`, by device, in the order of operators. Add ways in ascending order.
inline void add_shards(const BoundStrategy& strategy, std::int32_t way,
                       std::vector<std::vector<OperatorShard>>& shards) {
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const std::vector<DeviceId>& devices = strategy[i]->config.devices;
    for (std::size_t k = 0; k < devices.size(); ++k)
      shards[devices[k].index()].push_back({OperatorId(i), k, way});
  }
}

/// Keeps the steps of a device in order with barriers. Edges from each task of one step to each of the next
/// would be too many. `steps`: all steps of the device; barriers stand where steps_to_barrier() says. With
/// `to_update` a barrier follows the last step, too, and is returned (see update_after_steps()). `Tasks` has
///   Dag& dag: edges are added to it;
///   const OperatorTasks& of(OperatorId): the tasks of the first microbatch; or, with several ways,
///   const OperatorTasks& of(OperatorId, way): the tasks of the first microbatch of the way;
///   TaskId at(TaskId, std::int32_t microbatch): the same task of another microbatch;
///   std::int32_t stage_of(OperatorId);
///   TaskId add_barrier(std::size_t step, std::span<const PipelineStep> behind);
///   TaskId enter(std::span<const PipelineStep>, TaskId before), optional: the task after which steps may
///   begin.
template <class Tasks>
class StepOrder {
 public:
  StepOrder(Tasks tasks, const BoundStrategy& strategy) : StepOrder(tasks, {&strategy}) {}
  /// `ways`: one strategy per way; microbatches take them in turn.
  StepOrder(Tasks tasks, std::vector<const BoundStrategy*> ways) : tasks_(tasks), ways_(std::move(ways)) {}

  TaskId connect(std::span<const OperatorShard> shards, std::span<const PipelineStep> steps,
                 std::size_t together, bool to_update) {
    TaskId before;
    const bool by_stage = together == 1;
    if (by_stage) sort_by_stage(shards, steps);
    std::size_t barriers = 0;
    for (std::size_t n = 0, length = 0; n < steps.size(); n += length, ++barriers) {
      length = steps_to_barrier(steps, n, together);
      const std::span<const PipelineStep> now = steps.subspan(n, length);
      const bool last = n + length == steps.size();
      const TaskId after = last && !to_update ? TaskId() : tasks_.add_barrier(barriers, now);
      if constexpr (requires { tasks_.enter(now, before); }) before = tasks_.enter(now, before);
      bool any = false;
      // Steps beside each other are treated as neighbours: each lies between the barriers.
      for (std::size_t i = 0; i < (by_stage ? length : 1); ++i) {
        const PipelineStep& step = now[i];
        const std::span<const OperatorShard> among =
            by_stage ? of_stage_[static_cast<std::size_t>(step.stage)] : shards;
        for (const OperatorShard& shard : of_way(among, step.microbatch))
          any |= connect_shard(shard, by_stage ? now.subspan(i, 1) : now, before, after);
      }
      if constexpr (requires { tasks_.connect_host(now.front(), before, after); }) {
        for (std::size_t i = 0; i < length; ++i) {
          const bool first = i == 0 || by_stage, ends = i + 1 == length || by_stage;
          tasks_.connect_host(now[i], first ? before : TaskId(), ends ? after : TaskId());
        }
      }
      if (!any && before.valid() && after.valid()) tasks_.dag.add_edge(before, after);
      before = after;
    }
    return before;
  }

 private:
  // Lists the shards of each stage that the steps have, in their order.
  void sort_by_stage(std::span<const OperatorShard> shards, std::span<const PipelineStep> steps) {
    std::int32_t stages = 0;
    for (const PipelineStep& step : steps) stages = std::max(stages, step.stage + 1);
    of_stage_.assign(static_cast<std::size_t>(stages), {});
    for (const OperatorShard& shard : shards) {
      const std::int32_t stage = tasks_.stage_of(shard.op);
      if (stage < stages) of_stage_[static_cast<std::size_t>(stage)].push_back(shard);
    }
  }

  // The shards that run the microbatch. Where there are several ways, a barrier follows every step.
  [[nodiscard]] std::span<const OperatorShard> of_way(std::span<const OperatorShard> shards,
                                                      std::int32_t microbatch) const {
    const auto ways = static_cast<std::int32_t>(ways_.size());
    if (ways == 1) return shards;
    const std::int32_t way = microbatch % ways;
    return {std::ranges::lower_bound(shards, way, {}, &OperatorShard::way),
            std::ranges::upper_bound(shards, way, {}, &OperatorShard::way)};
  }

  // Adds edges from the barrier before to the first tasks of the first step, and from the last tasks of the
  // shard's last step to the barrier after. False when the shard has no task in these steps.
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
  std::vector<std::vector<OperatorShard>> of_stage_;
};

/// Makes weight updates wait for all of a device's steps. An update between the operators of the last
/// backward would keep the stage before waiting. `done`: by device its last barrier; a device without one is
/// skipped. `expanded.tasks_of(OperatorId)` has the updates; calls connect(barrier, update).
template <class Expanded, class Connect>
void update_after_steps(const Expanded& expanded, const BoundStrategy& strategy, std::span<const TaskId> done,
                        Connect connect) {
  for (std::size_t op = 0; op < strategy.size(); ++op) {
    const OperatorTasks& tasks = expanded.tasks_of(OperatorId(op));
    if (!tasks.update.valid()) continue;
    for (std::size_t k = 0; k < tasks.update_devices().size(); ++k) {
      const TaskId last = done[tasks.update_devices()[k].index()];
      if (last.valid()) connect(last, TaskId(tasks.update.index() + k));
    }
  }
}

}  // namespace pipesim

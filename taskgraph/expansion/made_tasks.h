#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

/// Ids of one operator's tasks of a microbatch: pass p, stage s, shard k is task first + s · shards + k.
struct OperatorTasks {
  TaskId forward, backward_input, backward_weight;  ///< first of each; invalid where the pass is absent
  TaskId recompute;                                 ///< forward once more; invalid unless it is run again
  TaskId update;  ///< first; one task per entry of update_devices; of the first microbatch that it takes in
  std::span<const DeviceId> update_devices;
};

/// One tensor's way from the uses that have it to the uses that want it.
struct Wiring {
  TaskKind kind = TaskKind::ForwardTransfer;  ///< or RecomputeTransfer, BackwardTransfer, GradientSync
  TensorId tensor;
  std::int32_t microbatch = 0;  ///< GradientSync: the first of those whose gradients it takes in, −1: of all
  std::int32_t ordinal = 0;     ///< part of keys: position of its first reader among the tensor's consumers
  const CommunicationPlan* plan = nullptr;
  TaskId first_task;  ///< of the plan's tasks; invalid if it has none
  std::vector<UseRef> sources,
      destinations;  ///< GradientSync has no destinations: the weight's owner is updated
  std::vector<std::int32_t> source_terms;  ///< per source: which term of the plan it is
  std::int32_t ways =
      1;  ///< GradientSync: of its stage's microbatches, each of which has all sources, in turn
  [[nodiscard]] std::int32_t way_of(std::size_t source) const {
    return static_cast<std::int32_t>(source * static_cast<std::size_t>(ways) / sources.size());
  }
  /// One in which the source makes what is moved.
  [[nodiscard]] std::int32_t microbatch_of(std::size_t source) const {
    return kind == TaskKind::GradientSync ? std::max(0, microbatch) + way_of(source) : microbatch;
  }
  /// Task number i of the plan.
  [[nodiscard]] TaskId task(std::size_t i) const { return TaskId(first_task.index() + i); }
};

/// The task that a device reaches when it has computed a step of its schedule, and before anything of the
/// next: a whole microbatch, or in a pipeline one way of a microbatch through a stage.
struct StepBarrier {
  DeviceId device;
  std::int32_t microbatch = 0;
  TaskId task;
};

/// The task after which a device may run operators of a segment again (see Recomputation), or may begin a
/// step for which the weights must have changed (see WeightVersions).
struct Gate {
  DeviceId device;
  TaskId task;
};

/// Tasks of so many microbatches that stand together, and come again in the same order for the next ones.
struct TaskBlock {
  std::int32_t microbatches = 1;
  std::size_t tasks = 0;
};

}  // namespace pipesim

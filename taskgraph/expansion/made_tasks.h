#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/binding/weight_updates.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

/// Ids of one operator's tasks of a microbatch: pass p, stage s, shard k is task first + s · shards + k.
struct OperatorTasks {
  TaskId forward, backward_input, backward_weight;  ///< first of each; invalid where the pass is absent
  TaskId recompute;                                 ///< forward once more; invalid unless it is run again
  TaskId update;  ///< first; one task per entry of update_devices; of the first microbatch that it takes in
  const OwnedUpdates* updates = nullptr;  ///< null where there are none
  [[nodiscard]] std::span<const DeviceId> update_devices() const {
    return updates ? std::span<const DeviceId>(updates->devices) : std::span<const DeviceId>();
  }
};

/// The passes of a microbatch that read what was moved.
enum class ReadIn : std::uint8_t { Forward, Backward, BothPasses };

/// The transfer of one tensor from the uses that have it to the uses that need it.
struct Wiring {
  TaskKind kind = TaskKind::ForwardTransfer;  ///< or any other that moves tensors between operators
  TensorId tensor;
  /// GradientSync: the first microbatch whose gradients it adds up; −1: it adds up all. WeightGather: −1 once
  /// an iteration, after the update or, if there are destinations, before the first microbatch uses the
  /// weight.
  std::int32_t microbatch = 0;
  std::int32_t ordinal = 0;  ///< part of keys: position of its first reader among the tensor's consumers
  const CommunicationPlan* plan = nullptr;
  TaskId first_task;    ///< of the plan's tasks; invalid if it has none
  double share = 1;     ///< of the plan's durations: products hide the rest (Runtime::tensor_overlap)
  bool blocks = false;  ///< devices compute nothing while they send or receive its messages
  bool alone = false;   ///< devices compute nothing while its tokens travel, see Runtime::dispatcher
  /// GradientSync has no destinations: the weight's owner is updated. WeightGather has no sources: it moves
  /// the weight's state.
  std::vector<UseRef> sources, destinations;
  std::vector<std::int32_t> source_terms;  ///< per source: which term of the plan it is
  /// GradientSync: the ways that microbatches of its stage take in turn; each way has all sources.
  std::int32_t ways = 1;
  /// WeightGather of a microbatch: the passes that read it. ForwardTransfer: Forward if all that backward
  /// reads of it is moved again.
  ReadIn read_in = ReadIn::BothPasses;
  [[nodiscard]] std::int32_t way_of(std::size_t source) const {
    return static_cast<std::int32_t>(source * static_cast<std::size_t>(ways) / sources.size());
  }
  /// A microbatch in which the source makes what is moved.
  [[nodiscard]] std::int32_t microbatch_of(std::size_t source) const {
    return kind == TaskKind::GradientSync ? std::max(0, microbatch) + way_of(source) : microbatch;
  }
  /// The task that carries out task number i of the plan.
  [[nodiscard]] TaskId task(std::size_t i) const { return TaskId(first_task.index() + i); }
};

/// A task between two steps of a device: all of one step ends before it, and all of the next begins after it.
/// A step is a whole microbatch, or in a pipeline one pass of a microbatch through a stage.
struct StepBarrier {
  DeviceId device;
  std::int32_t microbatch = 0;
  TaskId task;
};

/// The task after which a device may run operators of a segment again (see Recomputation), or may begin a
/// step for which the weights must have changed (see WeightVersions) or for which data must have come in (see
/// PairGates), or has got updated weights (see StateSharding). A gate may also be the task after which groups
/// of a pipeline may reduce gradients (see GradientReduction::AfterSteps); the first of their devices has it
/// for all. Or it is a task after which a device may update weights, or gather them (see
/// Runtime::updates_together).
struct Gate {
  DeviceId device;
  TaskId task;
  OperatorId gathered = {};  ///< valid: the device has got the updated weights that this operator owns
};

/// By device and round of a plan: the last task that is queued, see StrategyExpander::queue.
using StreamEnds = std::vector<std::vector<TaskId>>;

/// The smallest number of microbatches whose tasks stand together and repeat in the same order.
struct TaskBlock {
  std::int32_t microbatches = 1;
  std::size_t tasks = 0;
};

}  // namespace pipesim

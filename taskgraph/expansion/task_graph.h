#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/operator_graph.h"
#include "sim/task_dag.h"

namespace pipesim {

enum class TaskKind : std::uint8_t {
  Forward,
  BackwardInput,
  BackwardWeight,
  Recompute,  ///< forward once more, for backward
  Update,
  ForwardTransfer,    ///< moves activations
  RecomputeTransfer,  ///< moves activations for backward: they were made again, or moved once and not kept
  BackwardTransfer,   ///< moves gradients of activations
  GradientSync,       ///< adds weight gradients and brings them to the weights' state
  WeightGather,       ///< brings a weight whose state is divided to those that use it
  InnerReduce,        ///< a statistic inside an operator
  Rotation,           ///< a block of keys and values, or of their gradients, on its way round a ring
  /// Takes no time (1 ns where communication begins behind it): a device is done with a step of its schedule,
  /// may begin one or recompute, or has got its updated weights.
  Barrier,
  Host,         ///< a processor launches the kernels of some operators' passes on its device; no lane
  Interference  ///< compute of a device that a collective beside it takes (Runtime::interference)
};              // what is ready at the same time goes in this order
std::string_view name_of(TaskKind kind);  ///< "forward", "backward-input", …, "barrier", "host", …
constexpr bool is_pass(TaskKind kind) {
  return kind <= TaskKind::Recompute;
}  ///< of an operator, all but updates
constexpr bool moves_activations(TaskKind kind) {
  return kind == TaskKind::ForwardTransfer || kind == TaskKind::RecomputeTransfer;
}
constexpr bool is_communication(TaskKind kind) {
  return kind >= TaskKind::ForwardTransfer && kind <= TaskKind::Rotation;
}
/// Communication inside an operator.
constexpr bool is_inner(TaskKind kind) { return kind == TaskKind::InnerReduce || kind == TaskKind::Rotation; }

/// What a task of the graph stands for.
struct TaskLabel {
  TaskKind kind = TaskKind::Forward;
  Collective collective = Collective::Send;  ///< of communication tasks, and of what they take
  OperatorId op;  ///< of compute tasks, inner reduces and rotations; transfers: the tensor's producer, if
                  ///< any; barriers before recompute: the first operator that is run again
  /// The tensor of transfers and gradient synchronisation; the first tensor of barriers behind gathers of
  /// weights, or before reductions of gradients.
  TensorId tensor;
  DeviceId device;  ///< compute, barriers: where; communication: the first of the group (a send's source)
  DeviceId peer;    ///< a send's destination
  std::int32_t group_size = 1;  ///< of communication tasks
  std::int32_t stage = 0;       ///< compute: position among the pass's stages; communication: piece, round or
                                ///< step; barriers: which of the device's steps ends, or one of these:
  static constexpr std::int32_t weights_changed = -1, data_came_in = -2;  ///< before a step
  static constexpr std::int32_t all_summed = -3, all_updated = -4;        ///< see Runtime::updates_together
  Bytes size;                    ///< of communication tasks, as costmodel counts it
  std::int32_t microbatch = -1;  ///< −1: of all together, or there is only one
};

/// The tasks of one iteration under one plan: what is simulated, and what is executed.
struct TaskGraph {
  TaskDag dag;
  std::vector<TaskLabel> labels;  ///< by task id; empty when they were left out

  void clear() {
    dag.clear();
    labels.clear();
  }
};

/// A name for traces and reports: "conv1 forward", "all-reduce of conv1.weight", "conv1.out from gpu0 to
/// gpu1". Where there are several microbatches: "conv1 forward of microbatch 2", counted from 1.
std::string describe(const TaskLabel& label, const OperatorGraph& graph, const Topology& topology);

/// Why tasks of a plan can never run, from the result of find_cycle(): "deadlock: fc1 forward on gpu0 waits
/// for fc1.in from gpu1 to gpu0, which waits for fc1 forward on gpu0". The tasks must have labels.
std::string describe_deadlock(std::span<const TaskId> cycle, const TaskGraph& tasks,
                              const OperatorGraph& graph, const Topology& topology);

}  // namespace pipesim

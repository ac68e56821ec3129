#include "taskgraph/expansion/task_graph.h"

#include <fmt/format.h>

#include <array>

#include "sim/simulate.h"

namespace pipesim {

std::string_view name_of(TaskKind kind) {
  constexpr std::array<std::string_view, 15> names{
      "forward",          "backward-input",     "backward-weight",   "recompute",     "update",
      "forward-transfer", "recompute-transfer", "backward-transfer", "gradient-sync", "weight-gather",
      "inner-reduce",     "rotation",           "barrier",           "host",          "interference"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

std::string part_of(const TaskLabel& label) {
  return label.stage == 0 ? "" : fmt::format(" part {}", label.stage + 1);
}

std::string work_of(const TaskLabel& label, const OperatorGraph& graph, const Topology& topology) {
  if (!is_communication(label.kind)) {
    return fmt::format("{} {}{}", graph.op(label.op).name, name_of(label.kind), part_of(label));
  }
  if (label.kind == TaskKind::InnerReduce) {
    return fmt::format("{} statistics, all-reduce over {} devices", graph.op(label.op).name,
                       label.group_size);
  }
  if (label.kind == TaskKind::Rotation) {
    return fmt::format("{} round the ring from {} to {}{}", graph.op(label.op).name,
                       topology.device(label.device).name, topology.device(label.peer).name, part_of(label));
  }
  const std::string& tensor = graph.tensor(label.tensor).name;
  const bool value = label.kind == TaskKind::ForwardTransfer || label.kind == TaskKind::WeightGather;
  const std::string what = value                                       ? tensor
                           : label.kind == TaskKind::RecomputeTransfer ? tensor + " again"
                                                                       : "gradient of " + tensor;
  if (label.collective == Collective::Send) {
    return fmt::format("{} from {} to {}{}", what, topology.device(label.device).name,
                       topology.device(label.peer).name, part_of(label));
  }
  return fmt::format("{} of {} over {} devices{}", name_of(label.collective), what, label.group_size,
                     part_of(label));
}

std::string compute_lost_by(const TaskLabel& label, const OperatorGraph& graph) {
  return fmt::format("compute lost to {} of {} over {} devices", name_of(label.collective),
                     graph.tensor(label.tensor).name, label.group_size);
}

std::string launches_of(const TaskLabel& label, const OperatorGraph& graph) {
  constexpr std::array<std::string_view, 3> kPhases{"forward", "backward", "weight gradients"};
  return fmt::format("launches of {} beginning with {}", kPhases[static_cast<std::size_t>(label.stage)],
                     graph.op(label.op).name);
}

// Describes a barrier that does not end a step.
std::string event_of(const TaskLabel& label, const OperatorGraph& graph) {
  if (!label.op.valid())
    return fmt::format("gradients of {} and others may be reduced", graph.tensor(label.tensor).name);
  if (!label.tensor.valid()) return fmt::format("recompute from {} on may begin", graph.op(label.op).name);
  return fmt::format("weights of {} are gathered", graph.op(label.op).name);
}

}  // namespace

std::string describe(const TaskLabel& label, const OperatorGraph& graph, const Topology& topology) {
  const bool barrier = label.kind == TaskKind::Barrier;
  if (barrier && label.stage == TaskLabel::data_came_in)
    return fmt::format("what comes in for a step of microbatch {} is there", label.microbatch + 1);
  if (barrier && label.stage == TaskLabel::weights_changed)
    return fmt::format("weights have changed as microbatch {} needs it", label.microbatch + 1);
  if (barrier && label.stage == TaskLabel::all_summed) return "gradients of all weights are reduced";
  if (barrier && label.stage == TaskLabel::all_updated) return "all weights are updated";
  if (barrier && !label.op.valid() && !label.tensor.valid())
    return fmt::format("end of step {}, of microbatch {}", label.stage + 1, label.microbatch + 1);
  const std::string work = barrier                                ? event_of(label, graph)
                           : label.kind == TaskKind::Host         ? launches_of(label, graph)
                           : label.kind == TaskKind::Interference ? compute_lost_by(label, graph)
                                                                  : work_of(label, graph, topology);
  return label.microbatch < 0 ? work : fmt::format("{} of microbatch {}", work, label.microbatch + 1);
}

std::string describe_deadlock(std::span<const TaskId> cycle, const TaskGraph& tasks,
                              const OperatorGraph& graph, const Topology& topology) {
  return "deadlock: " + why_never(cycle, [&](TaskId task) {
           const TaskLabel& label = tasks.labels[task.index()];
           const std::string what = describe(label, graph, topology);
           return is_communication(label.kind) ? what : what + " on " + topology.device(label.device).name;
         });
}

}  // namespace pipesim

#pragma once

#include "sim/task_dag.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Keys order tasks that become ready together: by kind, microbatch, operator or tensor, stage or round, then
/// (destination − source) mod n, source. With this order of sends an all-to-all of n devices takes n − 1
/// rounds. Bits of the first word: 4 for the kind, 21 for the microbatch, 22 for the operator or tensor, and
/// 17 for the stage or the wiring of a tensor.
inline constexpr int kKindShift = 60, kMicrobatchShift = 39, kOperatorShift = 17;
static_assert(static_cast<int>(TaskKind::Interference) < 1 << (64 - kKindShift));
static_assert(std::int64_t{kMostMicrobatches} < std::int64_t{1} << (kKindShift - kMicrobatchShift));

inline std::uint64_t key_of(TaskKind kind, std::int32_t microbatch) {
  return static_cast<std::uint64_t>(kind) << kKindShift | static_cast<std::uint64_t>(microbatch)
                                                              << kMicrobatchShift;
}

inline TaskKey compute_key(TaskKind kind, std::int32_t microbatch, OperatorId op, std::size_t stage,
                           DeviceId device) {
  return {key_of(kind, microbatch) | static_cast<std::uint64_t>(op.value) << kOperatorShift | stage,
          static_cast<std::uint64_t>(device.value)};
}

/// `step`: the number, among the device's steps, of the step that the barrier ends.
inline TaskKey barrier_key(std::size_t step, DeviceId device) {
  return {key_of(TaskKind::Barrier, 0) | step, static_cast<std::uint64_t>(device.value)};
}

/// `ends`: what the gate waits for, 0 or 1, see StrategyExpander::update_together. Steps of a device have
/// fewer than 2³⁶ barriers.
inline TaskKey update_gate_key(std::uint64_t ends, DeviceId device) {
  return {key_of(TaskKind::Barrier, 0) | std::uint64_t{1} << (kMicrobatchShift - 3) | ends,
          static_cast<std::uint64_t>(device.value)};
}

/// Steps of a device have fewer than 2³⁶ barriers.
inline TaskKey recompute_gate_key(std::int32_t microbatch, std::size_t segment, DeviceId device) {
  return {key_of(TaskKind::Barrier, microbatch) | std::uint64_t{1} << (kMicrobatchShift - 1) | segment,
          static_cast<std::uint64_t>(device.value)};
}

/// `number`: the gate's number within its microbatch.
inline TaskKey version_gate_key(std::int32_t microbatch, std::size_t number, DeviceId device) {
  return {key_of(TaskKind::Barrier, microbatch) | std::uint64_t{3} << (kMicrobatchShift - 2) | number,
          static_cast<std::uint64_t>(device.value)};
}

/// `number`: the gate's number within its microbatch. Segments are fewer than 2³⁶.
inline TaskKey pair_gate_key(std::int32_t microbatch, std::size_t number, DeviceId device) {
  return {key_of(TaskKind::Barrier, microbatch) | std::uint64_t{5} << (kMicrobatchShift - 3) | number,
          static_cast<std::uint64_t>(device.value)};
}

/// `phase`: 0 … 3; `segment`: of operators, see HostTasks.
inline TaskKey host_key(std::int32_t microbatch, std::size_t segment, std::size_t phase, DeviceId device) {
  return {key_of(TaskKind::Host, microbatch) | static_cast<std::uint64_t>(segment) << 2 | phase,
          static_cast<std::uint64_t>(device.value)};
}

/// The key of the gate behind which a device has got an operator's updated weights.
inline TaskKey gathered_key(OperatorId owner, DeviceId device) {
  return {key_of(TaskKind::Barrier, 0) | std::uint64_t{1} << (kMicrobatchShift - 2) |
              static_cast<std::uint64_t>(owner.value),
          static_cast<std::uint64_t>(device.value)};
}

/// `number`: the gate's number.
inline TaskKey reduction_gate_key(std::size_t number, DeviceId device) {
  return {key_of(TaskKind::Barrier, 0) | std::uint64_t{1} << (kMicrobatchShift - 2) |
              std::uint64_t{1} << (kMicrobatchShift - 3) | number,
          static_cast<std::uint64_t>(device.value)};
}

/// `kind`: InnerReduce or Rotation; of one pass and step, a device is first in one group only.
inline TaskKey inner_exchange_key(TaskKind kind, TaskKind pass, std::int32_t microbatch, OperatorId op,
                                  std::int32_t step, DeviceId first) {
  return {key_of(kind, microbatch) | static_cast<std::uint64_t>(op.value) << kOperatorShift |
              static_cast<std::uint64_t>(step),
          static_cast<std::uint64_t>(pass) << 32 | static_cast<std::uint64_t>(first.value)};
}

/// The high word of a transfer's key, which all transfers of a wiring share; PlanExpansion has the low one.
/// `ordinal`: which of the tensor's wirings of this kind.
inline std::uint64_t transfer_key_high(TaskKind kind, std::int32_t microbatch, TensorId tensor,
                                       std::uint64_t ordinal) {
  return key_of(kind, microbatch) | static_cast<std::uint64_t>(tensor.value) << kOperatorShift |
         (ordinal & 0x1FFFF);
}

/// `of`: the kind of the collectives that take compute of the device; `ordinal`: that of their wiring.
inline TaskKey interference_key(TaskKind of, std::int32_t microbatch, TensorId tensor, std::int32_t ordinal,
                                DeviceId device) {
  // Tokens travel forward, backward and again; a consumer's position takes less.
  const std::uint64_t moves = of == TaskKind::BackwardTransfer    ? 1 << 14
                              : of == TaskKind::RecomputeTransfer ? 2 << 14
                                                                  : 0;
  const std::uint64_t which =
      moves | static_cast<std::uint64_t>(ordinal) << 1 | (of == TaskKind::WeightGather ? 1 : 0);
  return {transfer_key_high(TaskKind::Interference, microbatch, tensor, which),
          static_cast<std::uint64_t>(device.value)};
}

}  // namespace pipesim

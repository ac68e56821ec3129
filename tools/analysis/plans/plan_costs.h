#pragma once

#include <array>
#include <vector>

#include "tools/analysis/plans/plan_report.h"

namespace pipesim {

inline constexpr std::array kCommunicationKinds{TaskKind::ForwardTransfer,  TaskKind::RecomputeTransfer,
                                                TaskKind::BackwardTransfer, TaskKind::GradientSync,
                                                TaskKind::WeightGather,     TaskKind::InnerReduce,
                                                TaskKind::Rotation};
using CommunicationTimes = std::array<Nanoseconds, kCommunicationKinds.size()>;  ///< by kind of it
using MovedBytes = std::array<Bytes, kCommunicationKinds.size()>;                ///< by kind of communication

/// The cost of one operator in one iteration: its passes and updates on all devices, and its communication.
/// Communication is the transfers of its outputs and of their gradients, the gradient synchronisation of its
/// weights, and what its shards exchange inside it. Tensors that several operators read and none makes (data,
/// shared weights) count for their first reader.
struct OperatorCosts {
  Nanoseconds compute = 0;           ///< summed over devices
  Nanoseconds on_links = 0;          ///< how long its communication holds links, summed over them
  Bytes moved;                       ///< by its communication, see bytes_on_links()
  Nanoseconds critical = 0;          ///< its part of the critical path
  Nanoseconds update = 0;            ///< part of compute: updates of its weights
  MovedBytes moved_by{};             ///< `moved` by kind of communication
  CommunicationTimes critical_by{};  ///< part of `critical` that is communication, by its kind

  OperatorCosts& operator+=(const OperatorCosts& o);
  OperatorCosts& operator-=(const OperatorCosts& o);
  bool operator==(const OperatorCosts&) const = default;
};

/// The cost of a tensor's transfers and of its gradient's, and the operator that they count for.
struct TensorCosts {
  OperatorId counts_for;
  OperatorCosts costs;
};

/// A plan's report, and the costs by operator and tensor behind it.
struct PlanCosts {
  PlanReport report;
  std::vector<OperatorCosts> operators;  ///< by operator
  std::vector<TensorCosts> tensors;      ///< by tensor; those of weights are empty
  MovedBytes moved{};
};

/// Simulates all tasks of the plan; the report keeps none of them.
PlanCosts plan_costs(Evaluator& evaluator, const BoundStrategy& strategy);

/// Operators with the largest part of the critical path first, then those with the most to compute.
std::vector<OperatorId> most_critical_first(const std::vector<OperatorCosts>& operators);

}  // namespace pipesim

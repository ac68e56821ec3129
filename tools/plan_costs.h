#pragma once

#include <array>
#include <vector>

#include "tools/plan_report.h"

namespace pipesim {

/// What one operator costs in one iteration: its passes and updates on all devices, and its communication,
/// which is transfers of its outputs and of their gradients, gradient synchronisation of its weights, and
/// statistics inside it. What is read by several operators and made by none (data, shared weights) counts for
/// the first that reads it.
struct OperatorCosts {
  Nanoseconds compute = 0;   ///< summed over devices
  Nanoseconds on_links = 0;  ///< how long its communication holds links, summed over them
  Bytes moved;               ///< by its communication, see bytes_on_links()
  Nanoseconds critical = 0;  ///< its part of the critical path

  OperatorCosts& operator+=(const OperatorCosts& o);
  bool operator==(const OperatorCosts&) const = default;
};

inline constexpr std::array kCommunicationKinds{TaskKind::ForwardTransfer, TaskKind::RecomputeTransfer,
                                                TaskKind::BackwardTransfer, TaskKind::GradientSync,
                                                TaskKind::InnerReduce};

/// A plan's report, and where its figures come from.
struct PlanCosts {
  PlanReport report;
  std::vector<OperatorCosts> operators;                 ///< by operator
  std::array<Bytes, kCommunicationKinds.size()> moved;  ///< by kind of communication
};

/// The evaluator's task graph and timeline are this plan's afterwards.
PlanCosts plan_costs(Evaluator& evaluator, const BoundStrategy& strategy);

/// Operators with the largest part of the critical path first, then those with the most to compute.
std::vector<OperatorId> most_critical_first(const std::vector<OperatorCosts>& operators);

}  // namespace pipesim

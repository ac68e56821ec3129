#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/plans/operator_groups.h"
#include "tools/analysis/plans/plan_costs.h"

namespace pipesim {

/// A figure of two plans, with its name in texts and its key in JSON.
struct FigureChange {
  enum class Unit : std::uint8_t { Time, Size };
  std::string_view name, key;
  Unit unit = Unit::Time;
  std::int64_t before = 0, after = 0;
};

/// Operators that changed from the same config to the same other config, and their costs in both plans.
struct ChangedOperators {
  OperatorGroup group;   ///< words: "b/16 -> n/16 on 16 devices from 0"; compute: the larger of both
  std::string from, to;  ///< configs in words
  OperatorCosts before, after;
};

/// The difference between two plans of a model on the same devices.
struct PlanDifference {
  std::vector<FigureChange> figures;      ///< of the whole plans
  std::vector<ChangedOperators> changes;  ///< the most compute first, by the larger of both plans
  ChangedOperators unchanged;             ///< the others: what they pay for their neighbours' changes
  OperatorCosts before, after;            ///< of all operators
};

/// A strategy and what it costs.
struct CostedPlan {
  const BoundStrategy& strategy;
  const PlanCosts& costs;
};
PlanDifference plan_difference(const CostedPlan& before, const CostedPlan& after);

/// How an operator's config changed: "b/16 -> n/16 on 16 devices from 0" on the same devices in the same
/// order, else both configs in full.
std::string change_words(const Operator& op, const ParallelConfig& from, const ParallelConfig& to);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/additive/additive_costs.h"
#include "search/intra/instance.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Splits of operators, without stages, as an instance of the intra-operator problem (search/intra): a node
/// for each unit of operators that change together, a strategy for each config that AdditiveCosts chooses.
/// Costs are those of a microbatch, one unit after the other and nothing beside transfers, in picoseconds:
/// sums of these stay exact up to two hours (IntraSolution). Usages are bytes on the device that holds most
/// of a unit when forward has ended. So the fullest device holds no more than their sum, and as much where
/// each unit is spread over all devices evenly.
class IntraCosts {
 public:
  /// The arguments must outlive it. A plan has no pipeline.
  IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);

  /// With lower bounds where nothing was planned yet.
  [[nodiscard]] IntraInstance instance(Bytes limit) const;
  /// Plans what the answer moves; false when all of it was planned before.
  bool plan(const IntraAnswer& answer);
  /// Plans what any answer moves.
  void plan_all() { additive_.plan_all(); }
  [[nodiscard]] std::int64_t planned() const { return additive_.planned(); }
  [[nodiscard]] Strategy strategy(const IntraAnswer& answer) const;
  /// By node, the operators of the unit.
  [[nodiscard]] const MoveUnits& units() const { return units_; }
  /// By node and strategy: "b/2 o/4 on 8 devices from 0".
  [[nodiscard]] std::vector<std::vector<std::string>> strategy_names() const;
  /// What the answer with the least usage uses.
  [[nodiscard]] Bytes least_held() const;
  /// What plans may use of the smallest device.
  [[nodiscard]] Bytes usable() const;
  [[nodiscard]] Evaluator& evaluator() { return evaluator_; }
  [[nodiscard]] static double seconds_of(WideCost cost);

 private:
  Evaluator evaluator_;
  CandidateSet candidates_;
  std::vector<Strategy> starts_;
  ConfigSpace space_;
  MoveUnits units_;
  AdditiveCosts additive_;
  std::vector<std::vector<Bytes>> held_;  // [node][strategy]
};

}  // namespace pipesim

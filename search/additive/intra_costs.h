#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/additive/additive_costs.h"
#include "search/additive/pair_usages.h"
#include "search/intra/instance.h"
#include "search/intra/solve.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// How IntraCosts::solve_planned() works.
struct PlannedSolving {
  IntraSettings settings;  ///< for planned costs
  /// Once a few answers are known, at most so many transfers are planned at once instead of looking for more
  /// answers.
  std::size_t at_once = 2000;
  int most_answers = 40;
  /// Whether all that good answers may move is planned after `most_answers` answers, and before an answer is
  /// proven with costs that are bounds in part. Otherwise the best of `most_answers` answers will do.
  bool plans_before_proof = true;
};

/// Splits of operators, without stages, as an instance of the intra-operator problem (search/intra): a node
/// for each unit of operators that change together, a strategy for each config that AdditiveCosts chooses;
/// then nodes for what units get from others and keep (PairUsages). Costs are those of a microbatch, one unit
/// after the other and nothing beside transfers, in AdditiveCosts::kUnit. Usages are AdditiveCosts::held()
/// and held_of_moves(): what is held between passes on the fullest device is about their sum, where each unit
/// is spread over all devices evenly.
class IntraCosts {
 public:
  /// Configs on any of CandidateSet's lists of devices, or on this mesh of all devices. The other arguments
  /// must outlive it. A plan has no pipeline. InputError: see CandidateSet.
  IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
             const MeshAxes& mesh = {});
  /// Configs on all of these devices. `starts`: strategies to be among the choices, see AdditiveCosts. What
  /// units get from others and keep is left out, so that many parts are solved quickly.
  IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
             const std::vector<DeviceId>& devices, std::vector<Strategy> starts, std::size_t most_choices);

  [[nodiscard]] const AdditiveCounts& all() const { return additive_.all(); }
  [[nodiscard]] AdditiveCounts counts_of(const std::vector<bool>& operators) const {
    return additive_.counts_of(operators);
  }
  /// Returns the problem of a part of the model while `in_flight` microbatches are in flight. Costs and
  /// usages are lower bounds where nothing was planned yet. Answers of the other functions have the nodes of
  /// units alone.
  [[nodiscard]] PairUsages problem(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit);
  [[nodiscard]] IntraInstance instance(Bytes limit) { return problem(all(), 1, limit).instance(); }
  /// Solves the problem with planned costs. It plans what an answer moves and solves again, until all that
  /// the best answer moves is planned. Once a few answers are known, it leaves out what only dearer answers
  /// have (choices_within()). `looked` is called now and then, with the number of plans.
  IntraSolution solve_planned(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit,
                              const PlannedSolving& how,
                              const std::function<void(std::int64_t)>& looked = {});
  /// The sum of the answer's usages.
  [[nodiscard]] Bytes held(const IntraAnswer& answer, const AdditiveCounts& part, std::int64_t in_flight);
  /// Frees the plans; what they cost stays known.
  void forget_plans() { evaluator_.forget_plans(Bytes(0)); }
  [[nodiscard]] std::int64_t planned() const { return additive_.planned(); }  ///< plans so far
  /// Plans all that any answer may move.
  void plan_all();
  [[nodiscard]] Strategy strategy(const IntraAnswer& answer) const;
  /// By node, the operators of the unit.
  [[nodiscard]] const MoveUnits& units() const { return units_; }
  /// By node: "layer1.query and 11 like it".
  [[nodiscard]] std::vector<std::string> node_names(const IntraInstance& instance) const;
  /// By node and strategy: "b/2 o/4 on 8 devices from 0".
  [[nodiscard]] std::vector<std::vector<std::string>> strategy_names(const IntraInstance& instance) const;
  /// Returns the usage of the answer that uses least.
  [[nodiscard]] Bytes least_held();
  /// Returns how many bytes plans may use on the smallest device.
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
  bool counts_moves_;  // in usages
};

}  // namespace pipesim

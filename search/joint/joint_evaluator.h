#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search/evaluator.h"
#include "search/joint/iteration_bound.h"
#include "search/joint/joint_plan.h"
#include "search/joint/joint_scores.h"

namespace pipesim {

/// Scores joint plans with a fixed number of samples per iteration and any number of microbatches. Not
/// thread-safe. Results do not depend on earlier calls.
class JointEvaluator {
 public:
  /// The model with the samples of one microbatch, when there are this many, and its sequence divided like
  /// this; nothing when that is impossible. Called from any thread.
  using ModelOf = std::function<std::optional<OperatorGraph>(std::int32_t microbatches,
                                                             const SequenceDivision& sequence)>;
  /// `options` hold for all that a JointPlan does not say itself. The cost model must outlive it.
  JointEvaluator(ModelOf model_of, const CostModel& costs, PlanOptions options);
  /// Makes an evaluator for another thread.
  [[nodiscard]] std::unique_ptr<JointEvaluator> another() const;
  /// The memory is shared by this many evaluators.
  void share_memory(std::size_t evaluators) { sharing_ = static_cast<std::int64_t>(evaluators); }

  /// Whether a plan that is at least this slow, and at least this much over memory, is of no interest. Then
  /// every plan that is better in neither must be of no interest, too.
  using Hopeless = std::function<bool(const Evaluation& at_least)>;
  /// Nothing when the plan is illegal, or when the lower bound of its cost (iteration_bound.h) is hopeless.
  /// Where `hopeless` is given, a plan that would take seconds and gigabytes to simulate counts as illegal.
  std::optional<Evaluation> evaluate(const JointPlan& plan, const Hopeless& hopeless = {});
  /// Returns nullptr when the model can't have this number of microbatches.
  const OperatorGraph* graph(std::int32_t microbatches, const SequenceDivision& sequence = {});
  Strategy strategy(const JointPlan& plan);
  [[nodiscard]] PlanOptions options(const JointPlan& plan) const;
  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }

 private:
  Evaluator& evaluator_of(const JointPlan& plan, const OperatorGraph& graph);
  void limit_memory();
  JointScore score(const JointPlan& plan, const Hopeless& hopeless);

  ModelOf model_of_;
  const CostModel& costs_;
  PlanOptions options_;
  std::map<std::pair<std::int32_t, SequenceDivision>, std::optional<OperatorGraph>>
      graphs_;  // by microbatches and division
  struct KeptEvaluator {
    std::string shared;  // what its plans share, see evaluator_of
    std::unique_ptr<Evaluator> evaluator;
  };
  std::vector<KeptEvaluator> evaluators_;  // the one that was used last comes first
  IterationBound bound_;
  std::shared_ptr<JointScores> scores_;  // of all evaluators that were made of each other
  std::int64_t sharing_ = 1;
};

}  // namespace pipesim

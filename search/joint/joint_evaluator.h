#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "search/evaluator.h"
#include "search/joint/iteration_bound.h"
#include "search/joint/joint_plan.h"
#include "search/joint/joint_scores.h"

namespace pipesim {

/// Scores joint plans of one number of samples an iteration, whatever their microbatches. Not thread-safe;
/// what it says does not depend on what it has seen.
class JointEvaluator {
 public:
  /// The model with the samples of one of so many microbatches; nothing when it can't have them. Called from
  /// any thread.
  using ModelOf = std::function<std::optional<OperatorGraph>(std::int32_t microbatches)>;
  /// `options`: but for microbatches and pipeline. The cost model must outlive it.
  JointEvaluator(ModelOf model_of, const CostModel& costs, PlanOptions options);
  /// For another thread.
  [[nodiscard]] std::unique_ptr<JointEvaluator> another() const;
  /// So many of them share the memory.
  void share_memory(std::size_t evaluators) { sharing_ = static_cast<std::int64_t>(evaluators); }

  /// Says that nobody needs to know what a plan costs that is at least so slow, and so much over memory. What
  /// is not better in both is as hopeless.
  using Hopeless = std::function<bool(const Evaluation& at_least)>;
  /// Nothing when the plan is illegal, or what bounds its cost from below (iteration_bound.h) hopeless.
  std::optional<Evaluation> evaluate(const JointPlan& plan, const Hopeless& hopeless = {});
  /// nullptr: no model can have so many.
  const OperatorGraph* graph(std::int32_t microbatches);
  Strategy strategy(const JointPlan& plan);
  [[nodiscard]] PlanOptions options(const JointPlan& plan) const;
  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }

 private:
  struct Model {
    std::optional<OperatorGraph> graph;
    std::unique_ptr<Evaluator> evaluator;
  };
  Model& model(std::int32_t microbatches);
  JointScore score(const JointPlan& plan, const Hopeless& hopeless);

  ModelOf model_of_;
  const CostModel& costs_;
  PlanOptions options_;
  std::map<std::int32_t, Model> models_;
  IterationBound bound_;
  std::shared_ptr<JointScores> scores_;  // of all evaluators that were made of each other
  std::int64_t sharing_ = 1;
};

}  // namespace pipesim

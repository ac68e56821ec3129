#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/planners/pipelined_strategy.h"

namespace pipesim {

/// A plan of the joint space of pipelines and splits: stages on meshes, and operators that are split
/// otherwise than their stage.
struct JointPlan {
  std::int32_t microbatches = 1;
  Recompute::Kind recompute = Recompute::Kind::None;
  Pipeline pipeline;              ///< of one stage: none
  std::vector<StageMesh> meshes;  ///< stage s runs on meshes[s % meshes.size()]; no two share a device
  std::map<std::int32_t, ParallelConfig> own;  ///< by operator, on devices of its stage's mesh
  bool operator==(const JointPlan&) const = default;
  [[nodiscard]] const StageMesh& mesh_of(std::int32_t op) const {
    const auto stage = static_cast<std::size_t>(pipeline.stage_of[static_cast<std::size_t>(op)]);
    return meshes[stage % meshes.size()];
  }
};

/// A plan and what it costs.
struct ScoredJointPlan {
  JointPlan plan;
  Evaluation evaluation;
  bool operator==(const ScoredJointPlan&) const = default;
};

/// From a plan as it is executed. Operators that are not split as their stage's devices in order would be
/// keep their configs; devices are taken in the order of each stage's widest operator.
JointPlan joint_plan(const OperatorGraph& graph, const Topology& topology, std::int32_t microbatches,
                     const Strategy& strategy, const std::optional<Pipeline>& pipeline);

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

  /// Nothing when the plan is illegal.
  std::optional<Evaluation> evaluate(const JointPlan& plan);
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

  ModelOf model_of_;
  const CostModel& costs_;
  PlanOptions options_;
  std::map<std::int32_t, Model> models_;
  std::int64_t sharing_ = 1;
};

}  // namespace pipesim

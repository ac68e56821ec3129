#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "search/pipelines/pipelined_strategy.h"
#include "search/recipes/recipe.h"
#include "search/scored.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// A plan of the joint space of pipelines and splits: stages on meshes, and operators that differ from the
/// split of their stage.
struct JointPlan : PlanPolicies {
  std::int32_t microbatches = 1;
  Pipeline pipeline;
  std::vector<StageMesh> meshes;               ///< of stages by mesh_of_stage(); no two share a device
  std::map<std::int32_t, ParallelConfig> own;  ///< by operator, on devices of its stage's mesh
  bool scheduled = false;  ///< of one stage: it has the schedule's order of steps; else there is no pipeline
  SequenceDivision sequence = {};
  bool operator==(const JointPlan&) const = default;
  [[nodiscard]] bool has_pipeline() const { return scheduled || pipeline.num_stages() > 1; }
  [[nodiscard]] const StageMesh& mesh_of(std::int32_t op) const {
    const std::int32_t stage = pipeline.stage_of[static_cast<std::size_t>(op)];
    return meshes[mesh_of_stage(pipeline, stage, meshes.size())];
  }
};

/// Converts a plan as it is executed. The devices of a stage are taken in the order of its widest operator.
/// Operators whose config is not the one that the stage gives them on these devices keep their configs.
JointPlan joint_plan(const OperatorGraph& graph, const Topology& topology, std::int32_t microbatches,
                     const Strategy& strategy, const std::optional<Pipeline>& pipeline);

/// Returns the configs of a strategy that differ from those which the stages' meshes give.
std::map<std::int32_t, ParallelConfig> own_configs(const OperatorGraph& graph, const Topology& topology,
                                                   const Pipeline& pipeline,
                                                   const std::vector<StageMesh>& meshes,
                                                   const Strategy& strategy);

}  // namespace pipesim

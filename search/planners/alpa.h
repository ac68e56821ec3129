#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/pipelines/pipelined_strategy.h"
#include "search/planners/stage_partition.h"

namespace pipesim {

/// Stages on meshes that are not placed on devices yet, as Alpa's dynamic program chose them.
struct AlpaPlan {
  StagePartition partition;              ///< of `options`
  std::vector<StageOption> options;      ///< a config is the number of devices in a row
  std::vector<std::int32_t> cluster_of;  ///< by operator
};

/// Numbers of devices that a stage may have: powers of two within a node, a whole node, and several whole
/// nodes.
std::vector<std::int64_t> submesh_sizes(const Topology& topology);

/// Plans a pipeline as Alpa does (Zheng et al., OSDI 2022, sections 5 and 6): operators in clusters, and a
/// dynamic program over runs of them on submeshes. Costs of stages come from the simulator: the whole model
/// runs on each submesh, data-parallel or in rows of tensor-parallel devices, and a stage takes what its
/// clusters add to the time of one microbatch there, and its share of the synchronisation of gradients;
/// sending what leaves it to the next submesh counts with it, which Alpa leaves out. Memory: weights,
/// gradients and optimizer state of its first device, and what it keeps of every microbatch in flight. Where
/// all is run again, this is what enters the stage, and all that it makes of one microbatch; where attention
/// is, all but attention's, and the largest of it once.
///
/// `looked_at` is called after every submesh with the number of devices. Nothing when no pipeline fits.
/// `plan`: optimizer, types and microbatches. `schedule`: that stages are for. It changes what they may be
/// (no two use a weight of which each has versions, see inseparable_layers(); see partition_for()), not what
/// they cost.
std::optional<AlpaPlan> alpa(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
                             std::int32_t clusters, const std::function<void(std::int64_t)>& looked_at,
                             const std::string& schedule = "1f1b");

/// partition_stages(). Under a schedule that goes both ways an even number of stages with as many devices
/// each: then opposite ones can take each other's microbatches.
std::optional<StagePartition> partition_for(const std::string& schedule, const StageProblem& problem);

/// Devices for stages of these sizes: large ones first, each inside a node where one has room, else on whole
/// nodes. As many devices as the topology has or fewer.
std::vector<StageGroup> place_submeshes(const Topology& topology, const std::vector<std::int64_t>& sizes);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/alpa/stage_clusters.h"
#include "search/alpa/stage_partition.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Stages on meshes, as Alpa's dynamic program chose them. They are not placed on devices yet.
struct AlpaPlan {
  StagePartition partition;              ///< of `options`
  std::vector<StageOption> options;      ///< without `splits`, a config is the number of devices in a row
  std::vector<std::int32_t> cluster_of;  ///< by operator
  /// By stage of the partition: the configs of its operators (others have some config too) on the first
  /// devices of the topology. None: stages are split in rows.
  std::vector<Strategy> splits;
  bool proven = false;  ///< each of the splits has the least sum of all
};

/// Plans a pipeline as Alpa does (Zheng et al., OSDI 2022, sections 5 and 6), but with the splits that people
/// use: clusters of operators, and a dynamic program over runs of clusters on submeshes. Costs of stages come
/// from the simulator. The whole model runs on each submesh, data-parallel or in rows of tensor-parallel
/// devices. A stage takes the time that its clusters add to one microbatch there, plus its share of the
/// synchronisation of gradients. The transfer of its outputs to the next submesh counts too, which Alpa
/// leaves out. Where copies divide state, a stage takes no less than what every microbatch gathers and
/// reduces keeps its busiest link. Memory of a stage: weights, gradients and optimizer state of its first
/// device, gathered weights of its two largest clusters (of all clusters, where they are kept for backward),
/// and the activations that it keeps for every microbatch in flight. With full recompute these are the inputs
/// of the stage, plus everything that it makes of one microbatch. With selective recompute they are all but
/// those of attention, plus the largest attention's once.
///
/// `looked_at` is called with the number of devices after every submesh. See partitions_of(). `plan`:
/// optimizer, types and microbatches. `schedule`: the schedule that the stages are for. It limits the stages,
/// but does not change their costs, see partition_for(). Where each stage has its own versions of weights, no
/// two stages may use one weight, see inseparable_layers().
std::vector<AlpaPlan> alpa(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
                           std::int32_t clusters, const std::function<void(std::int64_t)>& looked_at,
                           const std::string& schedule = "1f1b");

/// Returns the best partition if stages of less than a node hand on inside it. Where another one is best if
/// they hand on to other nodes, returns that too. The plans have no splits. Returns none when no partition
/// fits.
std::vector<AlpaPlan> partitions_of(const StageProblem& problem, const StageClusters& clusters,
                                    const std::string& schedule);

/// Calls partition_stages(). For a schedule that goes both ways it requires an even number of stages with
/// equally many devices: opposite stages can then take each other's microbatches.
std::optional<StagePartition> partition_for(const std::string& schedule, const StageProblem& problem);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <vector>

#include "search/recipe_planner/measuring/part_traffic.h"
#include "search/recipe_planner/measuring/stage_transfers.h"

namespace pipesim {

/// How long the busiest lane, one device's share of a link, is held by transfers within parts, by gradients
/// and by gathered weights.
struct PartTraffic {
  Nanoseconds each = 0;    ///< by every microbatch
  Nanoseconds once = 0;    ///< by an iteration
  Nanoseconds at_end = 0;  ///< when the last backward has begun
  /// Compute that each device loses to gradients and gathered weights beside it (Runtime::interference), to
  /// those of every microbatch and to those of an iteration. What is gathered in forward is left out.
  Nanoseconds lost_each = 0, lost_once = 0;
};
struct MeshTraffic {
  PartTraffic front, behind;
  std::vector<PartTraffic> of_class;
  std::vector<StageTransfer>
      stage_transfers;  ///< by group of the pipeline: to the one behind it, of the last one to the first
};
/// Makes each figure of parts the lower one.
void lower(MeshTraffic& traffic, const MeshTraffic& other);

/// The groups of a pipeline on which the traffic of stages may differ. The least of them counts.
struct StageGroups {
  std::vector<std::int64_t> distinct;      ///< distinct_groups(), or distinct_pairs()
  bool both_ways = false;                  ///< each stage lies on two groups: as ScheduleKind::both_ways
  std::vector<std::size_t> class_of = {};  ///< classes_by_kinds()
  /// The distinct ones of each class.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> distinct_of_class() const;
};

/// By part: in front of the layers, behind them, and each class.
using HeldByParts = std::vector<HeldLanes>;
using HeldByPartsWeights = std::vector<HeldByWeights>;

/// Whether gradients that are reduced once an iteration are reduced beside backward.
bool reduces_beside_backward(const Recipe& recipe, const Runtime& runtime);

/// How often a microbatch gathers a weight, at least: once where some weights stay gathered for backward.
int least_gathers(const Recipe& recipe, const Runtime& runtime);

/// Returns the traffic of all parts on the lanes that all layers together hold longest: one lane in all, and
/// one at the end. `gathers`: see least_gathers(), `beside_backward`: reduces_beside_backward().
MeshTraffic on_busiest_lanes(const HeldByParts& transfers, const HeldByPartsWeights& weights,
                             const StateSharding& sharding, const ModelParts& parts,
                             std::int64_t microbatches, int gathers, bool beside_backward);

}  // namespace pipesim

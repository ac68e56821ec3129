#pragma once

#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// How much the copies of a stage move for its weights, as planners with formulas see it. The unit is an
/// all-reduce of all weights in their own type. Reducing gradients to parts is half a unit, gathering weights
/// the other half, each times the width of what moves (Rajbhandari et al., arXiv:1910.02054, section 7).
struct ShardingTraffic {
  double each = 0;  ///< in every microbatch, beside its computation
  double once = 1;  ///< behind the last microbatch; gathers in forward hide there
  bool divides_weights = false;
  bool operator==(const ShardingTraffic&) const = default;
};

/// Without state sharding it is one all-reduce an iteration in any type, as the published planners have it.
/// HSDP's groups are not told apart.
ShardingTraffic sharding_traffic(const OperatorGraph& graph, const PlanOptions& options);

}  // namespace pipesim

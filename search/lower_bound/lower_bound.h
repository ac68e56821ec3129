#pragma once

#include <algorithm>

#include "costmodel/cost_model.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Lower bounds of the iteration time of every strategy, feasible or not, searched or written by hand.
///
/// Cost of a pass. A shard that computes takes launch overhead + max(FLOPs / rate, bytes / bandwidth). No
/// rate exceeds the device's peak × the best efficiency of any kernel of at most the operator's FLOPs × that
/// of any matrix with at most the operator's inner length. The shards' FLOPs add up to at least the
/// operator's. So do their bytes, once the boxes of windows are replaced by their least share, because
/// windows with gaps between them read less when split. With replicas both sums only grow. Measured operators
/// take their share of the measured time.
///
/// Work. Device d is busy for at least its shares of all passes and updates. So for any prices p_d ≥ 0 with Σ
/// p_d = 1 the makespan T ≥ Σ_d p_d · busy_d ≥ Σ_passes min_d p_d (overhead_d + time_d), since the shares of
/// a pass add up to 1 and it starts at least one kernel (duality of linear programs). Prices are inversely
/// proportional to a device's time for the whole iteration; on equal devices the bound is all work / number
/// of devices. Passes count once per microbatch, updates once.
///
/// Chain. With n devices no shard is smaller than share(op) ≥ 1 / min(n, product of the factors' largest
/// legal degrees), minus the amount by which uneven cuts make the smallest piece smaller. A shard starts
/// after some shard of the producer of every input of which it needs a part. It needs a part of every input
/// whose dimensions are never cut away entirely. That holds for all inputs but those of concat: there it
/// needs some input at each point of the axis, so the cheapest point counts. Backward, a shard needs the
/// gradient from some shard of every consumer whose windows leave no element out. Both backward passes of a
/// shard run on its device one after the other. The update of a weight follows its backward passes. All of
/// this holds for each microbatch alone.
///
/// Crossing. For a weight that one operator uses there are two cases. Either no factor that the weight lacks
/// is split; then the pass that makes its gradient has at most as many distinct shards as the other factors
/// allow. Or every device that updates a part adds another device's addend to it; the addend comes in over
/// the device's links after that pass and takes at least bytes / the bandwidth of all links into one device.
struct LowerBound {
  Nanoseconds work = 0;
  Nanoseconds chain = 0;
  Nanoseconds crossing =
      0;  ///< chain and crossing of the weight for which their sum is largest; 0 without weights
  [[nodiscard]] Nanoseconds time() const { return std::max({work, chain, crossing}); }
  bool operator==(const LowerBound&) const = default;
};

LowerBound lower_bound_parts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);
inline Nanoseconds lower_bound(const OperatorGraph& graph, const CostModel& costs,
                               const PlanOptions& options) {
  return lower_bound_parts(graph, costs, options).time();
}

}  // namespace pipesim

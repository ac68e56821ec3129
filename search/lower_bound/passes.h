#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "costmodel/cost_model.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Seconds of one pass on one device: `overhead` however small the shard, `work` in proportion to its share.
struct PassCost {
  double overhead = 0, work = 0;
};

/// The least cost of every pass, see LowerBound.
class PassBounds {
 public:
  PassBounds(const OperatorGraph& graph, const CostModel& costs);

  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const CostModel& costs() const { return costs_; }
  [[nodiscard]] std::int64_t num_devices() const {
    return static_cast<std::int64_t>(costs_.topology().num_devices());
  }
  /// One device of every kind in use; devices_of_kind() has the number of devices of each kind.
  [[nodiscard]] const std::vector<DeviceId>& kinds() const { return kinds_; }
  [[nodiscard]] const std::vector<std::int64_t>& devices_of_kind() const { return devices_of_kind_; }

  /// The cost of all shards together on devices like `device`, with overhead once.
  [[nodiscard]] PassCost total(const Operator& op, Pass pass, DeviceId device) const;
  /// The least seconds, on the best kind of device, of any shard that has at least `share` of every factor
  /// product.
  [[nodiscard]] double shard(const Operator& op, Pass pass, double share) const;

 private:
  [[nodiscard]] PassCost cost(const Operator& bounded, const Operator& op, Pass pass, DeviceId device) const;

  const OperatorGraph& graph_;
  const CostModel& costs_;
  std::vector<DeviceId> kinds_;
  std::vector<std::int64_t> devices_of_kind_;
};

/// A lower bound of the smallest part, in any split over at most `devices` devices, of the product of the
/// factors that `may_split` admits. Splits are along these factors.
double smallest_share(const Operator& op, std::int64_t devices,
                      const std::function<bool(FactorIndex)>& may_split);
double smallest_share(const Operator& op, std::int64_t devices);

/// Returns no more nanoseconds than a task of so many seconds is rounded to. So a rounding error in the cost
/// model's arithmetic or here can't lift the bound over what it bounds.
Nanoseconds rounded_down(double seconds);

}  // namespace pipesim

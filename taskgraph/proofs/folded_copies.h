#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/binding/weight_updates.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

/// Copies of what a plan is made of, on the devices that stand for others (Folding).
class FoldedCopies {
 public:
  /// By lane: the one that stands for it, which is the first of its class.
  explicit FoldedCopies(std::vector<LaneId> first_lane) : first_lane_(std::move(first_lane)) {}

  [[nodiscard]] const std::vector<LaneId>& first_lane() const { return first_lane_; }
  [[nodiscard]] bool stands(DeviceId device) const {
    return first_lane_[device.index()].index() == device.index();
  }
  [[nodiscard]] DeviceId first_of(DeviceId device) const {
    return DeviceId(first_lane_[device.index()].index());
  }

  /// `class_of`: the classes of its exchanges, pass after pass.
  [[nodiscard]] BoundOperator of(const BoundOperator& b, std::span<const std::int32_t> class_of) const;
  /// `class_of`: the classes of its tasks.
  [[nodiscard]] CommunicationPlan of(const CommunicationPlan& plan,
                                     std::span<const std::int32_t> class_of) const;
  [[nodiscard]] OwnedUpdates of(const OwnedUpdates& updates) const;

 private:
  void append_folded(std::span<const LaneUse> lanes, std::vector<LaneUse>& out) const;
  void append_group(std::span<const DeviceId> group, std::vector<DeviceId>& out) const;
  [[nodiscard]] PassWork of(const PassWork& whole, const BoundOperator& b, const BoundOperator& folded,
                            std::span<const std::size_t> shards, std::span<const std::int32_t> class_of,
                            std::int32_t& next_class) const;
  [[nodiscard]] InnerExchange of(const InnerExchange& e, const BoundOperator& folded) const;

  std::vector<LaneId> first_lane_;
};

}  // namespace pipesim

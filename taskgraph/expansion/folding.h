#pragma once

#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/lane_use.h"
#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/binding/weight_updates.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

/// Groups of devices that always do the same at the same time, such as data-parallel replicas or the devices
/// of a tensor-parallel group. One device of each group is expanded and stands for all. find_folding() finds
/// the groups.
class Folding {
 public:
  /// The strategy on the devices that stand for others. Layouts and communicators are still those of all
  /// devices. Expand it with ExpansionSetting::folding.
  [[nodiscard]] const BoundStrategy& strategy() const { return strategy_; }
  /// What PlanContents::strategy_of() returns for each way of microbatches, on these devices; empty with one
  /// way.
  [[nodiscard]] const std::vector<BoundStrategy>& ways() const { return ways_; }
  /// The folded version of a communication plan, or of updates, of the whole strategy.
  [[nodiscard]] const CommunicationPlan& folded(const CommunicationPlan& whole) const {
    return plans_.at(&whole).plan;
  }
  [[nodiscard]] const OwnedUpdates& folded(const OwnedUpdates& whole) const { return updates_.at(&whole); }
  /// By task of the whole plan: the task of the folded plan that runs at the same time.
  [[nodiscard]] std::span<const std::int32_t> tasks_of(const CommunicationPlan& whole) const {
    return plans_.at(&whole).task_of;
  }
  /// The plan of the whole strategy that a folded plan stands for.
  [[nodiscard]] const CommunicationPlan& whole(const CommunicationPlan& folded) const {
    return *whole_.at(&folded);
  }
  [[nodiscard]] DeviceId stands_for(DeviceId device) const { return first_of_[device.index()]; }
  [[nodiscard]] LaneId stands_for(LaneId lane) const { return first_lane_[lane.index()]; }
  /// A value for every device, copied from the device that stands for it. Other entries of `of_device` are
  /// not read.
  template <class T>
  [[nodiscard]] std::vector<T> unfolded(const std::vector<T>& of_device) const {
    std::vector<T> all;
    for (const DeviceId first : first_of_) all.push_back(of_device[first.index()]);
    return all;
  }

 private:
  std::vector<DeviceId> first_of_;  // by device: the one that stands for it
  std::vector<LaneId> first_lane_;  // by lane
  std::deque<BoundOperator> operators_;
  std::vector<const BoundOperator*> whole_operators_;  // that these stand for
  // Holds the classes of the exchanges inside, pass after pass, for the first of operators that are alike.
  std::unordered_map<const BoundOperator*, std::vector<std::int32_t>> exchange_classes_;
  BoundStrategy strategy_;
  std::vector<BoundStrategy> ways_;
  struct Plan {
    CommunicationPlan plan;
    std::vector<std::int32_t> task_of;
  };
  std::unordered_map<const CommunicationPlan*, Plan> plans_;
  std::unordered_map<const CommunicationPlan*, const CommunicationPlan*> whole_;  // of folded plans
  std::unordered_map<const OwnedUpdates*, OwnedUpdates> updates_;
  friend class FoldingFinder;
};

}  // namespace pipesim

#pragma once

#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "taskgraph/task_graph_builder.h"

namespace pipesim {

/// Devices of a plan that always do the same at the same time, one of which stands for all: data-parallel
/// replicas, the devices of a tensor-parallel group. Operators, transfers and updates are looked at once
/// each, however often layers and microbatches repeat them, so that no task need be made to find this out.
///
/// What is proven, beside what find_lane_classes() proves of all statistics inside operators and all
/// communication. Devices whose compute lanes are of one class take the same steps, have shards of the same
/// operators, whose passes and updates take as long, above 0, and need as much memory; they use locally the
/// same of what they hold. Take tasks to be of one class when they are of one kind, microbatch and operator
/// or tensor, and on devices of a class or in a class of their pattern. Then tasks of a class have
/// predecessors in the same classes, and lanes of a class are held by tasks of the same classes, one of each,
/// in the same order, since keys decide by kind, microbatch and operator or tensor first. By induction over
/// time tasks of a class become ready together, find their lanes free at the same time, and start and end
/// together. Barriers and gates, which take no time, hold no lane and let go only work of their own device;
/// whether that or something else gets a lane first depends on kinds alone. So a task for each class on a
/// lane for each class of lanes runs as all of them do.
class Folding {
 public:
  /// Nothing where a condition fails, or too few devices are alike for folding to pay; nor where microbatches
  /// go several ways, or weights change between them.
  /// `of_steps`: gets one of the steps of microbatches alone, without what synchronises weights and updates
  /// them, and whatever weights devices keep, where clearly fewer devices stand for others there. What is
  /// alike in the one that is returned is alike there.
  static std::optional<Folding> find(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                     std::optional<Folding>* of_steps = nullptr);

  /// The strategy on the devices that stand for others. Layouts are still those of all devices. To be built
  /// while TaskGraphBuilder::fold_by() names this.
  [[nodiscard]] const BoundStrategy& strategy() const { return strategy_; }
  /// The same of a plan or of updates of the whole strategy.
  [[nodiscard]] const CommunicationPlan& folded(const CommunicationPlan& whole) const {
    return plans_.at(&whole).plan;
  }
  [[nodiscard]] const OwnedUpdates& folded(const OwnedUpdates& whole) const { return updates_.at(&whole); }
  /// By task of the whole plan: which one of the folded plan runs when it does.
  [[nodiscard]] std::span<const std::int32_t> tasks_of(const CommunicationPlan& whole) const {
    return plans_.at(&whole).task_of;
  }
  /// By task of a plan that is folded so: which one of another folding runs when it does. For that, what is
  /// alike here must be alike.
  [[nodiscard]] std::vector<std::int32_t> same_tasks(const CommunicationPlan& folded,
                                                     const Folding& other) const;
  [[nodiscard]] DeviceId stands_for(DeviceId device) const { return first_of_[device.index()]; }
  [[nodiscard]] LaneId stands_for(LaneId lane) const { return first_lane_[lane.index()]; }
  [[nodiscard]] bool is_of_steps() const { return of_steps_; }
  /// Of all devices, from a list of which only those that stand for others count.
  template <class T>
  [[nodiscard]] std::vector<T> unfolded(const std::vector<T>& of_device) const {
    std::vector<T> all;
    for (const DeviceId first : first_of_) all.push_back(of_device[first.index()]);
    return all;
  }

 private:
  struct Plan {
    CommunicationPlan plan;
    std::vector<std::int32_t> task_of;
  };
  std::vector<DeviceId> first_of_;  // by device: the one that stands for it
  std::vector<LaneId> first_lane_;  // by lane
  bool of_steps_ = false;
  std::deque<BoundOperator> operators_;
  BoundStrategy strategy_;
  std::unordered_map<const CommunicationPlan*, Plan> plans_;
  std::unordered_map<const CommunicationPlan*, const CommunicationPlan*> whole_;  // of folded plans
  std::unordered_map<const OwnedUpdates*, OwnedUpdates> updates_;
  friend class FoldingFinder;
};

}  // namespace pipesim

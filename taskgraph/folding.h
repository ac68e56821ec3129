#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "taskgraph/steady_state.h"
#include "taskgraph/step_order.h"

namespace pipesim {

/// Tasks of a plan that always run at the same time, taken for one: what data-parallel replicas and the
/// devices of a tensor-parallel group do, collectives between them included.
///
/// What is proven, of one microbatch's tasks and those of none, in classes of tasks and of lanes. Tasks of a
/// class have the same high part of their key (kind, operator or tensor), the same duration, above 0, and
/// predecessors in the same classes; they hold lanes of the same classes for as long. Lanes of a class are
/// held by tasks of the same classes, by one of each, which stand in the same order by their keys. Devices
/// whose compute lanes are of one class take the same steps. Then, by induction over time, tasks of a class
/// become ready together, find their lanes free at the same time, and start and end together: lanes meet no
/// tasks but those of their classes, in an order that keys decide. So a task for each class on a lane for
/// each class of lanes runs as all of them do. The classes come from colours that are refined until nothing
/// changes; each of these conditions is then looked at itself.
class Folding {
 public:
  /// `block`: the builder's build_unordered() of the strategy, which it built last. Nothing where a condition
  /// fails, or too few tasks are alike for folding to pay.
  static std::optional<Folding> find(const TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                     const TaskDag& block);

  /// The folded graph of so many microbatches, and what find_steady_state() needs beside its timeline.
  [[nodiscard]] FewMicrobatches build(const TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                      std::int32_t microbatches, TaskDag& out,
                                      const Timeline& timeline) const;
  /// Class of each task of the block: those of a microbatch first.
  [[nodiscard]] std::span<const std::int32_t> class_of() const { return class_of_; }
  [[nodiscard]] std::size_t classes_of_one() const { return classes_of_one_; }

 private:
  struct Class {
    TaskKey key;
    Nanoseconds duration = 0;
    std::vector<LaneUse> lanes;  ///< of classes of lanes
  };
  std::vector<Class> classes_;
  std::vector<std::int32_t> class_of_;
  std::size_t classes_of_one_ = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> edges_;  ///< of classes
  std::vector<DeviceId> devices_;                             ///< one of each class that takes steps
  friend class FoldingFinder;
};

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/ids.h"
#include "sim/task_dag.h"
#include "sim/timeline.h"

namespace pipesim {

/// The tasks in the order in which the simulator gave them their places on lanes: (ready time, key), every
/// task after those that it waits for. All lists of the executor follow this one order, so that no two
/// devices ever wait for each other (the single controller of Pathways, Barham et al. 2022, section 4.4).
std::vector<TaskId> dispatch_order(const TaskDag& dag, const Timeline& simulated);

/// A device's part in a communication task.
struct StreamedTask {
  TaskId task;
  Nanoseconds start = 0, end = 0;  ///< simulated
};

/// Gives every task a stream: tasks of one stream do not overlap in simulated time, and there are as few
/// streams as the device ever has tasks under way at once, at most `most`. `tasks` in dispatch order; returns
/// stream numbers.
std::vector<std::int32_t> assign_streams(std::span<const StreamedTask> tasks, std::int32_t most);

/// Lists that are worked off one task after the other; a task that stands in several lists is done when it is
/// the first of all of them. `why_stuck` proves that the lists end: nothing, or the tasks that wait in a
/// circle.
class ListOrder {
 public:
  explicit ListOrder(const TaskDag& dag) : dag_(dag) {}
  void add_list(std::vector<TaskId> tasks) { lists_.push_back(std::move(tasks)); }
  [[nodiscard]] std::optional<std::vector<TaskId>> why_stuck() const;

 private:
  const TaskDag& dag_;
  std::vector<std::vector<TaskId>> lists_;
};

}  // namespace pipesim

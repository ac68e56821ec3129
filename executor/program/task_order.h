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

/// The tasks in the order in which they began: by (start, ready time, key), every task after those that it
/// waits for. All lists of the executor follow this one order, so no two devices ever wait for each other
/// (the single controller of Pathways, Barham et al. 2022, section 4.4).
std::vector<TaskId> dispatch_order(const TaskDag& dag, const Timeline& simulated);

/// A device's part in a communication task.
struct StreamedTask {
  TaskId task;
  Nanoseconds start = 0, end = 0;  ///< simulated
};

/// Assigns a stream to every task. Tasks of one stream do not overlap in simulated time. There are as many
/// streams as the device has tasks under way at once, but at most `most`. `tasks` are in dispatch order;
/// returns stream numbers.
std::vector<std::int32_t> assign_streams(std::span<const StreamedTask> tasks, std::int32_t most);

/// Lists whose tasks are done one after the other. A task that is in several lists is done when it is the
/// first in all of them. `why_stuck` checks that the lists end: it returns nothing, or the tasks that wait in
/// a circle.
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

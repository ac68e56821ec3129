#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// Decides between tasks that become ready at the same time: smaller goes first. Keys of one TaskDag are unique and
/// come from content (operator, pass, microbatch, …), never from creation order, so equal plans give equal schedules.
struct TaskKey {
  std::uint64_t high = 0;  ///< priority in the top bits
  std::uint64_t low = 0;
  auto operator<=>(const TaskKey&) const = default;
};

/// A lane that a task needs, and for how long it keeps it from its start.
struct LaneUse {
  LaneId lane;
  Nanoseconds hold = 0;
  bool operator==(const LaneUse&) const = default;
};

/// Tasks, the lanes that they occupy, and the order between them: all the engine knows. It has no idea what a device
/// or an operator is.
///
/// A task is ready when its last predecessor has ended; it starts when all its lanes are free, holds lane l for
/// hold_l, and ends `duration` after its start. duration ≥ every hold; the difference is latency, which delays the
/// task's successors and occupies nothing. A task without lanes starts when it is ready.
class TaskDag {
 public:
  /// Empties the graph and keeps its memory, for building the next one without allocation.
  void clear();
  void reserve(std::size_t tasks, std::size_t edges);

  /// A task of at most one lane (an invalid lane: none). Ids are given in order from 0.
  TaskId add_task(TaskKey key, Nanoseconds duration, LaneId lane, Nanoseconds hold);
  TaskId add_task(TaskKey key, Nanoseconds duration, LaneId lane) { return add_task(key, duration, lane, duration); }
  /// A task of any number of distinct lanes.
  TaskId add_task(TaskKey key, Nanoseconds duration, std::span<const LaneUse> lanes);
  void add_edge(TaskId before, TaskId after);
  /// Sorts the edges into rows; call once after the last add_*, before anything below.
  /// Throws InternalError on repeated keys (checked in debug builds), negative times, hold > duration, unknown ids.
  void finish();

  [[nodiscard]] std::size_t num_tasks() const;
  [[nodiscard]] std::size_t num_edges() const;
  [[nodiscard]] std::size_t num_lanes() const;  ///< one more than the largest lane id in use
  [[nodiscard]] Nanoseconds duration(TaskId task) const;
  [[nodiscard]] TaskKey key(TaskId task) const;
  [[nodiscard]] std::span<const LaneUse> lanes(TaskId task) const;
  [[nodiscard]] std::span<const TaskId> successors(TaskId task) const;
  [[nodiscard]] std::int32_t num_predecessors(TaskId task) const;
};

}  // namespace pipesim

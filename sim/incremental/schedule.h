#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/incremental/editable_dag.h"

namespace pipesim {

/// When a task of an EditableDag runs, and why then.
struct ScheduledTask {
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  Nanoseconds ready = 0, start = 0, end = 0;
  std::uint32_t position = kNowhere;  ///< in the order in which tasks are taken
  TaskId critical;  ///< of the predecessors that end when it becomes ready, the one taken last
  TaskId last;      ///< the predecessor that was taken last; both invalid without predecessors
};

/// The timeline of an EditableDag, the order in which its tasks are taken from the ready queue, and at every
/// few positions of that order the state of the simulation, so that it can go on from there.
///
/// Checkpoint c is the state before the task at position c · spacing is taken. It costs 16 bytes a lane, and
/// 8 a task that is open; spacing is about the number of lanes, so all of them cost some 20 bytes a task.
class Schedule {
 public:
  /// A task whose critical predecessor has been taken, but not the task itself. Until all of its
  /// predecessors have been taken it is not in the queue.
  struct OpenTask {
    TaskId task;
    bool queued = false;
  };

  [[nodiscard]] Nanoseconds makespan() const { return makespan_; }
  [[nodiscard]] std::span<const TaskId> order() const { return order_; }
  [[nodiscard]] const ScheduledTask& operator[](TaskId task) const { return tasks_[task.index()]; }
  /// When the task at a position became ready; never falls from one to the next.
  [[nodiscard]] Nanoseconds ready_at(std::size_t position) const {
    return tasks_[order_[position].index()].ready;
  }

  [[nodiscard]] std::size_t spacing() const { return spacing_; }
  [[nodiscard]] std::size_t num_checkpoints() const { return num_checkpoints_; }
  /// By lane: when it is free.
  [[nodiscard]] std::span<const Nanoseconds> lanes_free(std::size_t checkpoint) const {
    return std::span(lane_free_).subspan(checkpoint * num_lanes_, num_lanes_);
  }
  /// By lane: how long it has been free, added up.
  [[nodiscard]] std::span<const Nanoseconds> lanes_idle(std::size_t checkpoint) const {
    return std::span(lane_idle_).subspan(checkpoint * num_lanes_, num_lanes_);
  }
  [[nodiscard]] std::span<const OpenTask> open_tasks(std::size_t checkpoint) const {
    return open_[checkpoint];
  }
  /// The largest end of the tasks between two checkpoints; `to` may be num_checkpoints().
  [[nodiscard]] Nanoseconds latest_end(std::size_t from, std::size_t to) const;

  void clear(std::size_t lanes);
  /// Grows to the dag's ids.
  void resize(std::size_t ids) { tasks_.resize(ids); }
  [[nodiscard]] ScheduledTask& task(TaskId task) { return tasks_[task.index()]; }
  /// Forgets the order from a checkpoint on. Before times and causes of the tasks behind it change.
  void cut(std::size_t checkpoint);
  /// Goes on with `order`. Its tasks' times and causes must have been set; positions and checkpoints follow
  /// from them.
  void append(const EditableDag& dag, std::span<const TaskId> order);

  [[nodiscard]] std::size_t bytes() const;

 private:
  /// The first checkpoint after a task was taken; 0 for no task.
  [[nodiscard]] std::size_t checkpoint_after(TaskId task) const {
    return task.valid() ? tasks_[task.index()].position / spacing_ + 1 : 0;
  }
  void add_checkpoint();
  void list_open(TaskId task);

  std::vector<ScheduledTask> tasks_;
  std::vector<TaskId> order_;
  Nanoseconds makespan_ = 0;
  std::size_t num_lanes_ = 0, spacing_ = 1, num_checkpoints_ = 0;
  std::vector<Nanoseconds> lane_free_, lane_idle_;  // [checkpoint · lanes + lane]
  std::vector<std::vector<OpenTask>> open_;         // by checkpoint; more than num_checkpoints_ are kept
  std::vector<Nanoseconds> latest_end_;             // by checkpoint: of the tasks before the next one
  std::vector<Nanoseconds> free_, idle_;            // scratch: at the end of the order so far
};

}  // namespace pipesim

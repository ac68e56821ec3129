#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/incremental/editable_dag.h"

namespace pipesim {

/// When a task of an EditableDag runs, and which predecessors determine that.
struct ScheduledTask {
  Nanoseconds ready = 0, start = 0, end = 0;
  TaskId critical;  ///< among the predecessors that end when it becomes ready, the one taken last
  TaskId last;      ///< the predecessor that was taken last; both invalid without predecessors
};

/// The timeline of an EditableDag, the order in which its tasks are taken from the ready queue, and
/// checkpoints: the state of the simulation at regular positions of that order, from which it can continue.
///
/// Checkpoint c is the state before the task at position c · spacing is taken. It takes 16 bytes per lane and
/// 8 bytes per open task. The spacing is about the number of lanes, so all checkpoints take some 20 bytes per
/// task.
class Schedule {
 public:
  /// A task that has not been taken, but whose critical predecessor has. It enters the queue when all of its
  /// predecessors have been taken.
  struct OpenTask {
    TaskId task;
    bool queued = false;
  };

  /// Where a task stands in the order.
  struct Place {
    std::uint32_t position = 0;
    std::uint32_t first_before = 0;  ///< position of its first predecessor; kNowhere without predecessors
    std::uint32_t num_before = 0;    ///< number of predecessors
  };

  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] Nanoseconds makespan() const { return makespan_; }
  [[nodiscard]] std::span<const TaskId> order() const { return order_; }
  [[nodiscard]] const ScheduledTask& operator[](TaskId task) const { return tasks_[task.index()]; }
  /// Position in the order. The task must be in it.
  [[nodiscard]] std::uint32_t position(TaskId task) const { return places_[task.index()].position; }
  [[nodiscard]] const Place& place(TaskId task) const { return places_[task.index()]; }
  /// When the task at a position became ready. Never decreases from one position to the next.
  [[nodiscard]] Nanoseconds ready_at(std::size_t position) const {
    return tasks_[order_[position].index()].ready;
  }

  [[nodiscard]] std::size_t spacing() const { return spacing_; }
  [[nodiscard]] std::size_t num_checkpoints() const { return num_checkpoints_; }
  /// The last checkpoint at or before a position.
  [[nodiscard]] std::size_t checkpoint_at(std::size_t position) const {
    return std::min(position / spacing_, std::max<std::size_t>(num_checkpoints_, 1) - 1);
  }
  /// By lane: when it is free.
  [[nodiscard]] std::span<const Nanoseconds> lanes_free(std::size_t checkpoint) const {
    return std::span(lane_free_).subspan(checkpoint * num_lanes_, num_lanes_);
  }
  /// By lane: the sum of its holds so far.
  [[nodiscard]] std::span<const Nanoseconds> lanes_held(std::size_t checkpoint) const {
    return std::span(lane_held_).subspan(checkpoint * num_lanes_, num_lanes_);
  }
  [[nodiscard]] std::span<const OpenTask> open_tasks(std::size_t checkpoint) const {
    return open_[checkpoint];
  }
  /// The largest end of the tasks at positions [from, to).
  [[nodiscard]] Nanoseconds latest_end(std::size_t from, std::size_t to) const;

  void clear(std::size_t lanes);
  /// Grows to the number of the dag's ids.
  void resize(std::size_t ids) {
    tasks_.resize(ids);
    places_.resize(ids);
  }
  [[nodiscard]] ScheduledTask& task(TaskId task) { return tasks_[task.index()]; }
  /// Drops the order from a checkpoint on. Call it before the times and causes of the tasks behind it change.
  void cut(std::size_t checkpoint);
  /// Extends the order by `order`, whose tasks' times must be set already. Then call find_causes() for the
  /// tasks whose causes may have changed, then link() from the first new checkpoint on.
  void append(const EditableDag& dag, std::span<const TaskId> order);
  void find_causes(const EditableDag& dag, TaskId task);
  void link(const EditableDag& dag, std::size_t checkpoint);

  [[nodiscard]] std::size_t bytes() const;

 private:
  /// The first checkpoint after a task was taken; 0 for no task.
  [[nodiscard]] std::size_t checkpoint_after(TaskId task) const {
    return task.valid() ? position(task) / spacing_ + 1 : 0;
  }
  void add_checkpoint();
  void list_open(std::size_t position);

  std::vector<ScheduledTask> tasks_;
  std::vector<Place> places_;  // by task
  std::vector<TaskId> order_;
  Nanoseconds makespan_ = 0;
  std::size_t num_lanes_ = 0, spacing_ = 1, num_checkpoints_ = 0;
  std::vector<Nanoseconds> lane_free_, lane_held_;  // [checkpoint · lanes + lane]
  std::vector<std::vector<OpenTask>> open_;         // by checkpoint; more than num_checkpoints_ are kept
  std::vector<Nanoseconds> latest_end_;             // by checkpoint: of the tasks before the next one
  std::vector<Nanoseconds> free_, held_;            // scratch: at the end of the order so far
};

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/lane_use.h"
#include "sim/task_dag.h"

namespace pipesim {

/// A task graph that is edited in place. An edit removes and adds tasks and edges. finish() closes it; then
/// it is kept with keep() or undone with undo(). Both take time in proportion to the edit and allocate
/// nothing once a few edits have grown the memory. Between finish() and keep() or undo() the graph is the
/// edited one, and the edit can be inspected: that is when resimulate() runs.
///
/// Ids of removed tasks are not used again, so memory grows with every edit that is kept. A graph with many
/// more ids than tasks should be built anew. Tasks have the same meaning as in TaskDag.
class EditableDag {
 public:
  void clear();

  /// Lane uses are not copied: they must outlive the task. Ids ascend in the order of the calls.
  TaskId add_task(TaskKey key, Nanoseconds duration, std::span<const LaneUse> lanes) {
    const LaneUse* uses = lanes.empty() ? &kNone : lanes.data();
    return append(key, {duration, uses, static_cast<std::int32_t>(lanes.size()), true, false, {}, {}});
  }
  /// A task that holds one lane for its whole duration.
  TaskId add_task(TaskKey key, Nanoseconds duration, LaneId lane) {
    return append(key, {duration, nullptr, lane.value, true, false, {}, {}});
  }
  void add_edge(TaskId before, TaskId after) { new_edges_.push_back({before, after}); }
  /// Removes the `count` tasks first, first + 1, …, and their edges. They must exist before the edit.
  void remove_tasks(TaskId first, std::size_t count);
  /// Removes one of the edges from `before` to `after`. It must exist before the edit.
  void remove_edge(TaskId before, TaskId after) { removed_edges_.push_back({before, after}); }
  void finish();
  void keep();
  void undo();

  [[nodiscard]] std::size_t num_tasks() const { return num_tasks_; }
  /// One more than the largest id.
  [[nodiscard]] std::size_t num_ids() const { return tasks_.size(); }
  [[nodiscard]] bool exists(TaskId task) const { return tasks_[task.index()].exists; }
  [[nodiscard]] Nanoseconds duration(TaskId task) const { return tasks_[task.index()].duration; }
  [[nodiscard]] TaskKey key(TaskId task) const { return keys_[task.index()]; }
  [[nodiscard]] std::span<const TaskKey> keys() const { return keys_; }  ///< by id
  [[nodiscard]] LaneUses lanes(TaskId task) const {
    const Task& t = tasks_[task.index()];
    if (t.lane_uses == nullptr) return LaneUses(1, LaneUse{LaneId(t.lanes), t.duration});
    return LaneUses(std::span(t.lane_uses, static_cast<std::size_t>(t.lanes)));
  }
  [[nodiscard]] std::span<const TaskId> successors(TaskId task) const {
    return row(tasks_[task.index()].successors);
  }
  [[nodiscard]] std::span<const TaskId> predecessors(TaskId task) const {
    return row(tasks_[task.index()].predecessors);
  }

  /// Prefetches the memory that is read when a task is ordered and taken.
  void prefetch(TaskId task) const {
    const Task& t = tasks_[task.index()];
    __builtin_prefetch(&keys_[task.index()]);
    __builtin_prefetch(t.lane_uses);
    __builtin_prefetch(rows_.data() + t.successors.first);
  }

  /// The tasks that the edit removes.
  [[nodiscard]] std::span<const TaskId> removed() const { return removed_; }
  /// The added tasks have the ids from this one to the last.
  [[nodiscard]] TaskId first_added() const { return TaskId(first_added_); }
  /// Added tasks that wait for no other added task.
  [[nodiscard]] std::span<const TaskId> added_first() const { return added_first_; }
  /// Tasks that stay, but have other predecessors than before the edit.
  [[nodiscard]] std::span<const TaskId> touched() const { return changed_predecessors_; }

  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr LaneUse kNone{};  // so that no lanes differ from one lane
  struct Row {
    std::uint32_t first = 0, count = 0;
  };
  struct Task {
    Nanoseconds duration;
    const LaneUse* lane_uses;  ///< nullptr: `lanes` is the only one, held for the whole duration
    std::int32_t lanes;        ///< a lane, or how many lane_uses
    bool exists;
    bool after_added;  ///< an added task that waits for another one
    Row successors, predecessors;
  };
  struct Edge {
    TaskId before, after;
  };
  /// What an edit does to a task that was there before and stays.
  struct Mark {
    std::uint32_t edit = 0;
    std::uint32_t new_successors = 0, new_predecessors = 0;
    bool other_successors = false, other_predecessors = false;
  };
  struct RowBefore {
    TaskId task;
    Row row;
  };

  [[nodiscard]] std::span<const TaskId> row(Row r) const { return {rows_.data() + r.first, r.count}; }
  [[nodiscard]] bool is_removed(TaskId task) const { return removed_in_[task.index()] == edit_; }
  TaskId append(TaskKey key, const Task& task) {
    tasks_.push_back(task);
    keys_.push_back(key);
    return TaskId(keys_.size() - 1);
  }
  [[nodiscard]] bool is_added(TaskId task) const { return task.index() >= first_added_; }
  Mark& mark(TaskId task);
  Mark& mark_successors(TaskId task);
  Mark& mark_predecessors(TaskId task);
  void mark_rows();
  void count_new_edges();
  void move_rows();
  void place_added_rows();
  Row moved_row(Row old, std::uint32_t more);
  void erase(Row& row, TaskId task);
  void begin_next();

  std::vector<Task> tasks_;
  std::vector<TaskKey> keys_;
  std::vector<Mark> marks_;
  std::vector<std::uint32_t> removed_in_;  // by task: the edit that removes it
  std::vector<TaskId> rows_;
  std::size_t num_tasks_ = 0;

  std::uint32_t edit_ = 1;  ///< number of the edit
  std::size_t first_added_ = 0, first_row_ = 0;
  std::vector<TaskId> removed_, added_first_;
  std::vector<Edge> new_edges_, removed_edges_;
  std::vector<TaskId> changed_successors_;
  std::vector<TaskId> changed_predecessors_;
  std::vector<RowBefore> successors_before_, predecessors_before_;
};

}  // namespace pipesim

#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/lane_use.h"

namespace pipesim {

/// The order among tasks that become ready at the same time: the smaller key goes first. Keys of one TaskDag
/// are unique and come from content (operator, pass, microbatch, …), never from creation order, so equal
/// plans give equal schedules.
struct TaskKey {
  std::uint64_t high = 0;  ///< priority in the top bits
  std::uint64_t low = 0;
  auto operator<=>(const TaskKey&) const = default;
};

/// Tasks, the lanes that they hold, and the order between them. The engine knows nothing else: no devices and
/// no operators.
///
/// A task is ready when its last predecessor has ended. It starts when all its lanes are free, holds lane l
/// for hold_l, and ends `duration` after its start. duration ≥ every hold; the difference is latency, which
/// delays the task's successors and occupies no lane. A task without lanes starts when it is ready.
///
/// Memory of a task that holds at most one lane for its whole duration: 36 bytes, and 4 per edge. While
/// building, each edge takes 8 more. Any other lane use takes 16 bytes, plus 8 per
/// task.
class TaskDag {
 public:
  /// Empties the graph and keeps its memory, for building the next one without allocation.
  void clear();
  void reserve(std::size_t tasks, std::size_t edges);

  /// A task of at most one lane; an invalid lane means none. Ids ascend from 0 in the order of the calls.
  TaskId add_task(TaskKey key, Nanoseconds duration, LaneId lane, Nanoseconds hold) {
    if (hold == duration || !lane.valid()) return append(key, duration, lane.valid() ? lane.value : kNoLane);
    const LaneUse use{lane, hold};
    return add_task(key, duration, std::span(&use, 1));
  }
  TaskId add_task(TaskKey key, Nanoseconds duration, LaneId lane) {
    return add_task(key, duration, lane, duration);
  }
  /// A task that holds any number of distinct lanes.
  TaskId add_task(TaskKey key, Nanoseconds duration, std::span<const LaneUse> lanes);
  void add_edge(TaskId before, TaskId after) { edges_.push_back({before, after}); }
  /// Adds copies of all tasks and edges so far. Copy n, from 1, has ids that are larger by n times their
  /// number, keys whose high word is larger by n · `key_step`, and the same lanes.
  void repeat(std::size_t copies, std::uint64_t key_step);
  /// Sorts the edges into rows. Call it once after the last add_*, before anything below. Throws
  /// InternalError on negative times, hold > duration and unknown ids; debug builds also call check_unique().
  /// Throws InputError when the durations add up to more than int64 holds (292 years), so that no simulated
  /// time can overflow.
  void finish();
  /// Makes durations and holds so many times those of `like`, by task, rounded to nanoseconds. Both must be
  /// the same graph but for their times: InternalError otherwise, or where a factor is negative or no number.
  void retime(const TaskDag& like, std::span<const double> factors);
  /// Gives a task of a finished graph another duration; if it holds one lane for its whole duration, it
  /// still does. Call check_times() after the last change.
  void set_duration(TaskId task, Nanoseconds duration) { tasks_[task.index()].duration = duration; }
  /// The same for a task that was added with a list of lanes, and its holds. Copies of it (repeat()) share
  /// these. False, and unchanged, where the lanes are others.
  bool set_times(TaskId task, Nanoseconds duration, std::span<const LaneUse> lanes);
  /// The checks of finish() on times.
  void check_times() const;
  /// Throws InternalError when two tasks have the same key or a task names a lane twice.
  void check_unique() const;

  [[nodiscard]] std::size_t num_tasks() const { return keys_.size(); }
  [[nodiscard]] std::size_t num_edges() const { return successors_.size(); }  ///< after finish()
  [[nodiscard]] std::size_t num_lanes() const {
    return num_lanes_;
  }  ///< one more than the largest lane id in use
  [[nodiscard]] Nanoseconds duration(TaskId task) const { return tasks_[task.index()].duration; }
  [[nodiscard]] TaskKey key(TaskId task) const { return keys_[task.index()]; }
  [[nodiscard]] std::span<const TaskKey> keys() const { return keys_; }  ///< by task id
  [[nodiscard]] LaneUses lanes(TaskId task) const {
    const Task& t = tasks_[task.index()];
    if (t.lanes >= kNoLane) return LaneUses(t.lanes == kNoLane ? 0 : 1, LaneUse{LaneId(t.lanes), t.duration});
    const LaneRow row = lane_rows_[static_cast<std::size_t>(kNoLane - 1 - t.lanes)];
    return LaneUses(std::span(lane_uses_).subspan(row.first, row.count));
  }
  [[nodiscard]] std::span<const TaskId> successors(TaskId task) const {
    const Task* t = &tasks_[task.index()];
    return {successors_.data() + t[0].first_successor, successors_.data() + t[1].first_successor};
  }
  [[nodiscard]] std::int32_t num_predecessors(TaskId task) const { return num_predecessors_[task.index()]; }
  [[nodiscard]] std::span<const std::int32_t> num_predecessors() const {
    return num_predecessors_;
  }  ///< by task id

  /// For the engine's loop: prefetches the memory that it will read of a task.
  void prefetch(TaskId task) const { __builtin_prefetch(&tasks_[task.index()]); }
  void prefetch_successors(TaskId task) const {
    __builtin_prefetch(successors_.data() + tasks_[task.index()].first_successor);
  }

  /// Bytes in use after finish().
  [[nodiscard]] std::size_t bytes() const;
  /// Bytes of the edges as they were added, until finish().
  [[nodiscard]] std::size_t building_bytes() const { return edges_.size() * sizeof(Edge); }

 private:
  static constexpr std::int32_t kNoLane = -1;
  static constexpr std::uint64_t kNegative = std::uint64_t{1} << 63;
  struct Task {
    Nanoseconds duration;
    std::int32_t
        lanes;  ///< a lane held for the whole duration, or kNoLane, or kNoLane - 1 - index into lane_rows_
    std::uint32_t first_successor;
  };
  struct LaneRow {
    std::uint32_t first;
    std::uint32_t count;
  };
  struct Edge {
    TaskId before;
    TaskId after;
  };

  TaskId append(TaskKey key, Nanoseconds duration, std::int32_t lanes) {
    if (lanes >= static_cast<std::int32_t>(num_lanes_)) num_lanes_ = static_cast<std::size_t>(lanes) + 1;
    time_bits_ |= static_cast<std::uint64_t>(duration);
    if (keys_.size() == keys_.capacity()) grow(tasks_), grow(keys_);
    tasks_.push_back({duration, lanes, 0});
    keys_.push_back(key);
    return TaskId(keys_.size() - 1);
  }
  // Twice as much room takes too much of the memory where a graph is large.
  template <class Item>
  static void grow(std::vector<Item>& items) {
    constexpr std::size_t kMany = 1 << 20;
    const std::size_t size = items.size();
    items.reserve(size < kMany ? 2 * size + 1 : size + size / 4);
  }
  [[nodiscard]] bool times_are_surely_valid() const;
  void check_lanes(TaskId task) const;
  void count_edges();
  void sort_edges();

  std::vector<Task> tasks_;  ///< and after finish() one more, whose first_successor closes the last row
  std::vector<TaskKey> keys_;
  std::vector<TaskId> successors_;
  std::vector<std::int32_t> num_predecessors_;
  std::vector<LaneRow> lane_rows_;
  std::vector<LaneUse> lane_uses_;
  std::deque<Edge> edges_;  // until finish(): of many, no copy is made while their number grows
  std::size_t num_lanes_ = 0;
  std::uint64_t time_bits_ =
      0;  ///< all durations, holds and latencies or'ed: an upper bound, and whether one is negative
};

}  // namespace pipesim

#include "sim/task_dag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/errors.h"

namespace pipesim {

void TaskDag::clear() {
  tasks_.clear();
  keys_.clear();
  successors_.clear();
  num_predecessors_.clear();
  lane_rows_.clear();
  lane_uses_.clear();
  edges_.clear();
  num_lanes_ = 0;
  time_bits_ = 0;
}

void TaskDag::reserve(std::size_t tasks, std::size_t edges) {
  tasks_.reserve(tasks + 1);
  keys_.reserve(tasks);
  num_predecessors_.reserve(tasks);
  successors_.reserve(edges);
}

TaskId TaskDag::add_task(TaskKey key, Nanoseconds duration, std::span<const LaneUse> lanes) {
  const auto row = static_cast<std::int32_t>(lane_rows_.size());
  lane_rows_.push_back(
      {static_cast<std::uint32_t>(lane_uses_.size()), static_cast<std::uint32_t>(lanes.size())});
  for (const LaneUse& use : lanes) {
    const auto hold = static_cast<std::uint64_t>(use.hold);
    time_bits_ |= hold | (static_cast<std::uint64_t>(duration) - hold);
    if (use.lane.valid()) {
      num_lanes_ = std::max(num_lanes_, use.lane.index() + 1);
    } else {
      time_bits_ |= kNegative;  // so that finish() looks closer
    }
    lane_uses_.push_back(use);
  }
  return append(key, duration, kNoLane - 1 - row);
}

void TaskDag::repeat(std::size_t copies, std::uint64_t key_step) {
  const std::size_t tasks = keys_.size(), edges = edges_.size();
  // With room for as much again, since more is added behind.
  tasks_.reserve(tasks * (copies + 2));
  keys_.reserve(tasks * (copies + 2));
  for (std::size_t n = 1; n <= copies; ++n) {
    const auto shift = static_cast<std::int32_t>(n * tasks);
    tasks_.insert(tasks_.end(), tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(tasks));
    for (std::size_t i = 0; i < tasks; ++i) keys_.push_back({keys_[i].high + n * key_step, keys_[i].low});
    for (std::size_t i = 0; i < edges; ++i) {
      const auto [before, after] = edges_[i];
      edges_.push_back({TaskId(before.value + shift), TaskId(after.value + shift)});
    }
  }
}

void TaskDag::finish() {
  if (tasks_.size() != keys_.size()) throw InternalError("TaskDag: finish() was called twice");
  if (!times_are_surely_valid()) check_times();
#ifndef NDEBUG
  check_unique();
#endif
  tasks_.push_back({0, kNoLane, 0});
  count_edges();
  sort_edges();
  edges_.clear();
}

/// No negative time, and even all durations as long as the bound on the longest would add up to less than
/// int64 holds.
bool TaskDag::times_are_surely_valid() const {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<Nanoseconds>::max());
  return time_bits_ <= most / (keys_.size() + 1);
}

void TaskDag::check_times() const {
  Nanoseconds sum = 0;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const Nanoseconds d = tasks_[i].duration;
    if (d < 0) throw InternalError(fmt::format("task {}: duration {} ns is negative", i, d));
    check_lanes(TaskId(i));
    if (__builtin_add_overflow(sum, d, &sum)) {
      throw InputError(fmt::format(
          "task {}: the durations up to this one add up to more than 2^63 - 1 ns (292 years)", i));
    }
  }
}

void TaskDag::check_lanes(TaskId task) const {
  const Nanoseconds d = duration(task);
  for (const LaneUse use : lanes(task)) {
    const auto fail = [&](std::string_view what) {
      throw InternalError(
          fmt::format("task {}: hold {} ns of lane {} {}", task.value, use.hold, use.lane.value, what));
    };
    if (!use.lane.valid()) fail("is of no lane");
    if (use.hold < 0) fail("is negative");
    if (use.hold > d) fail(fmt::format("exceeds the duration {} ns", d));
  }
}

void TaskDag::retime(const TaskDag& like, std::span<const double> factors) {
  if (like.num_tasks() != num_tasks() || factors.size() != num_tasks() || like.successors_ != successors_ ||
      like.lane_uses_.size() != lane_uses_.size())
    throw InternalError("retime: the graphs differ");
  const auto scaled = [](Nanoseconds time, double factor) {
    constexpr double kMost = 9e18;
    const double made = static_cast<double>(time) * factor;
    if (!(made >= 0 && made < kMost))
      throw InternalError(fmt::format("retime: {} ns times {}", time, factor));
    return static_cast<Nanoseconds>(std::llround(made));
  };
  for (std::size_t i = 0; i < factors.size(); ++i) {
    tasks_[i].duration = scaled(like.tasks_[i].duration, factors[i]);
    if (tasks_[i].lanes >= kNoLane) continue;
    const LaneRow row = lane_rows_[static_cast<std::size_t>(kNoLane - 1 - tasks_[i].lanes)];
    for (std::uint32_t use = row.first; use < row.first + row.count; ++use)
      lane_uses_[use].hold = scaled(like.lane_uses_[use].hold, factors[i]);
  }
}

bool TaskDag::set_times(TaskId task, Nanoseconds duration, std::span<const LaneUse> lanes) {
  Task& t = tasks_[task.index()];
  if (t.lanes >= kNoLane) return false;
  const LaneRow row = lane_rows_[static_cast<std::size_t>(kNoLane - 1 - t.lanes)];
  const std::span<LaneUse> uses = std::span(lane_uses_).subspan(row.first, row.count);
  if (!std::ranges::equal(uses, lanes, {}, &LaneUse::lane, &LaneUse::lane)) return false;
  std::ranges::copy(lanes, uses.begin());
  t.duration = duration;
  return true;
}

void TaskDag::check_unique() const {
  std::vector<TaskKey> keys = keys_;
  std::ranges::sort(keys);
  const auto twin = std::ranges::adjacent_find(keys);
  if (twin != keys.end()) {
    throw InternalError(fmt::format("two tasks have the key {:#x} {:#x}", twin->high, twin->low));
  }
  std::vector<std::size_t> user(num_lanes_, keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    for (const LaneUse use : lanes(TaskId(i))) {
      if (user[use.lane.index()] == i) {
        throw InternalError(fmt::format("task {}: uses lane {} twice", i, use.lane.value));
      }
      user[use.lane.index()] = i;
    }
  }
}

/// Counts each task's successors (in first_successor, for sort_edges) and predecessors.
void TaskDag::count_edges() {
  const std::size_t n = keys_.size();
  if (edges_.size() > std::numeric_limits<std::int32_t>::max())
    throw InternalError("more than 2^31 - 1 edges");
  num_predecessors_.assign(n, 0);
  for (const auto [before, after] : edges_) {
    // An invalid id is a huge index.
    if (before.index() >= n || after.index() >= n) {
      throw InternalError(fmt::format("edge {} -> {}: there are {} tasks", before.value, after.value, n));
    }
    ++tasks_[before.index()].first_successor;
    ++num_predecessors_[after.index()];
  }
}

/// A counting sort by the task before. Rows keep the order in which their edges were added.
void TaskDag::sort_edges() {
  std::uint32_t end = 0;
  for (Task& t : tasks_) t.first_successor = end += t.first_successor;
  successors_.resize(edges_.size());
  // From the back: each row's end moves down to its first edge.
  for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge)
    successors_[--tasks_[edge->before.index()].first_successor] = edge->after;
}

std::size_t TaskDag::bytes() const {
  return tasks_.size() * sizeof(Task) + keys_.size() * sizeof(TaskKey) + successors_.size() * sizeof(TaskId) +
         num_predecessors_.size() * sizeof(std::int32_t) + lane_rows_.size() * sizeof(LaneRow) +
         lane_uses_.size() * sizeof(LaneUse);
}

}  // namespace pipesim

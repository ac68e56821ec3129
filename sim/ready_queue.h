#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/task_dag.h"

namespace pipesim {

/// A task and when it became ready.
struct ReadyTask {
  Nanoseconds ready = 0;
  TaskId task;
  bool operator==(const ReadyTask&) const = default;
};

/// The ready tasks, popped in the order of (ready time, key). Time only moves forward: no task is pushed with
/// a ready time before that of the last one popped. This queue makes use of that; a plain heap cannot.
///
/// A radix heap of base 64 (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path
/// problem", 1990). `now` is the last ready time popped. Take the highest digit k in which a ready time
/// differs from `now`, and its value d there: the task is in slot d of level k. So the earliest tasks are in
/// the lowest slot of the lowest level in use, found by two bit scans. A slot with one task is popped at
/// once; else `now` moves to the earliest ready time in the slot, and the slot's tasks move to lower levels.
/// Example with now = 0: 5 is in slot 5 of level 0; 64 to 127 share slot 1 of level 1 until one of them is
/// popped.
///
/// Tasks that are ready exactly at `now` are in `due_`, and only they are compared by key.
class ReadyQueue {
 public:
  /// Empties the queue and sets `now`. `keys` is by task id and must outlive its use.
  void reset(std::span<const TaskKey> keys, Nanoseconds now = 0);
  [[nodiscard]] bool empty() const { return levels_ == 0 && due_.empty() && late_.empty(); }
  /// `ready` ≥ the ready time of the last task popped.
  void push(Nanoseconds ready, TaskId task);
  /// The queue must not be empty.
  ReadyTask pop();
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr int kDigitBits = 6;
  static constexpr std::size_t kSlots = std::size_t{1} << kDigitBits;
  static constexpr std::size_t kLevels = (63 + kDigitBits - 1) / kDigitBits;  ///< ready times have 63 bits
  static constexpr std::int32_t kNone = -1;
  struct Node {
    Nanoseconds ready;
    TaskId task;
    std::int32_t next;
  };
  struct Level {
    std::uint64_t used = 0;  ///< which slots are not empty; only their `first` counts
    std::array<std::int32_t, kSlots> first{};
  };

  Node& node(std::int32_t i) { return nodes_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool later(TaskId a, TaskId b) const { return keys_[b.index()] < keys_[a.index()]; }
  std::int32_t new_node();
  void free(std::int32_t i);
  void link(std::int32_t i);
  std::int32_t take_lowest_slot();
  void split(std::int32_t first);
  void sort_due();
  void push_late(TaskId task);
  TaskId pop_due();

  std::span<const TaskKey> keys_;
  Nanoseconds now_ = 0;
  std::uint32_t levels_ = 0;  ///< which levels have tasks
  std::array<Level, kLevels> level_;
  std::vector<Node> nodes_;  ///< of the lists that start in Level::first and in free_
  std::int32_t free_ = kNone;
  std::vector<TaskId> due_;  ///< sorted, the next one last
  std::vector<TaskId>
      late_;  ///< a heap of those pushed when they were due already: successors of zero-time tasks
};

inline std::int32_t ReadyQueue::new_node() {
  const std::int32_t i = free_;
  if (i != kNone) return free_ = node(i).next, i;
  nodes_.emplace_back();
  return static_cast<std::int32_t>(nodes_.size() - 1);
}

inline void ReadyQueue::free(std::int32_t i) {
  node(i).next = free_;
  free_ = i;
}

inline void ReadyQueue::link(std::int32_t i) {
  Node& n = node(i);
  const auto differ = static_cast<std::uint64_t>(n.ready ^ now_);
  const int digit = (63 - std::countl_zero(differ)) / kDigitBits;
  const auto slot = static_cast<std::size_t>(n.ready >> (digit * kDigitBits)) % kSlots;
  Level& level = level_[static_cast<std::size_t>(digit)];
  const std::uint64_t bit = std::uint64_t{1} << slot;
  n.next = (level.used & bit) != 0 ? level.first[slot] : kNone;
  level.first[slot] = i;
  level.used |= bit;
  levels_ |= 1U << digit;
}

inline void ReadyQueue::push(Nanoseconds ready, TaskId task) {
  if (ready == now_) return push_late(task);
  __builtin_prefetch(&keys_[task.index()]);
  const std::int32_t i = new_node();
  node(i).ready = ready;
  node(i).task = task;
  link(i);
}

inline std::int32_t ReadyQueue::take_lowest_slot() {
  const int digit = std::countr_zero(levels_);
  Level& level = level_[static_cast<std::size_t>(digit)];
  const std::int32_t first = level.first[static_cast<std::size_t>(std::countr_zero(level.used))];
  level.used &= level.used - 1;
  levels_ ^= static_cast<std::uint32_t>(level.used == 0) << digit;
  return first;
}

inline TaskId ReadyQueue::pop_due() {
  std::vector<TaskId>* from = &due_;
  if (!late_.empty() && (due_.empty() || later(due_.back(), late_.front()))) {
    std::pop_heap(late_.begin(), late_.end(), [&](TaskId a, TaskId b) { return later(a, b); });
    from = &late_;
  }
  const TaskId task = from->back();
  from->pop_back();
  return task;
}

inline ReadyTask ReadyQueue::pop() {
  if (due_.empty() && late_.empty()) {
    const std::int32_t first = take_lowest_slot();
    const Node& n = node(first);
    if (n.next == kNone) {
      free(first);
      now_ = n.ready;
      return {n.ready, n.task};
    }
    split(first);
  }
  return {now_, pop_due()};
}

}  // namespace pipesim

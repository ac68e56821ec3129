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

/// The ready tasks, taken out in the order of (ready time, key). Time only moves forward: a task can be pushed no
/// earlier than the ready time of the last one popped, which is what a heap can't use and this queue does.
///
/// A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path problem", 1990) of base
/// 64. A ready time that differs from `now` (the last one popped) first in digit k, where it has the digit d, is in
/// slot d of level k. So the earliest are in the lowest slot of the lowest level in use, found by two bit scans. A slot
/// with one task is popped at once; else `now` moves to its earliest, and its tasks move to lower levels. Example with
/// now = 0: 5 is in slot 5 of level 0; 64 to 127 share slot 1 of level 1 until one of them is popped.
///
/// Tasks that are ready exactly at `now` are `due`, and only they are compared by key.
class ReadyQueue {
 public:
  /// Empties the queue and sets `now` to 0. `keys` is by task id and must outlive its use.
  void reset(std::span<const TaskKey> keys);
  [[nodiscard]] bool empty() const { return levels_ == 0 && due_.empty() && late_.empty(); }
  /// `ready` ≥ the ready time of the last task popped.
  void push(Nanoseconds ready, TaskId task);
  /// The queue must not be empty.
  ReadyTask pop();
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr int kDigitBits = 6;
  static constexpr int kLevels = (63 + kDigitBits - 1) / kDigitBits;  ///< ready times have 63 bits
  static constexpr std::int32_t kNone = -1;
  struct Node {
    Nanoseconds ready;
    TaskId task;
    std::int32_t next;
  };
  struct Level {
    std::uint64_t used = 0;  ///< which slots are not empty
    std::array<std::int32_t, 1 << kDigitBits> first{};
  };

  void link(std::int32_t node);
  void free(std::int32_t node);
  void split(std::int32_t first);
  TaskId pop_due();

  std::span<const TaskKey> keys_;
  Nanoseconds now_ = 0;
  std::uint32_t levels_ = 0;  ///< which levels have tasks
  std::array<Level, kLevels> level_;
  std::vector<Node> nodes_;
  std::int32_t free_ = kNone;
  std::vector<TaskId> due_;   ///< sorted, the next one last
  std::vector<TaskId> late_;  ///< a heap of those pushed when they were due already: successors of zero-time tasks
};

inline void ReadyQueue::link(std::int32_t node) {
  const Nanoseconds ready = nodes_[static_cast<std::size_t>(node)].ready;
  const int digit = (63 - std::countl_zero(static_cast<std::uint64_t>(ready ^ now_))) / kDigitBits;
  const auto slot = static_cast<std::size_t>(ready >> (digit * kDigitBits)) % (1 << kDigitBits);
  Level& level = level_[static_cast<std::size_t>(digit)];
  const std::uint64_t bit = std::uint64_t{1} << slot;
  nodes_[static_cast<std::size_t>(node)].next = (level.used & bit) != 0 ? level.first[slot] : kNone;
  level.first[slot] = node;
  level.used |= bit;
  levels_ |= 1U << digit;
}

inline void ReadyQueue::free(std::int32_t node) {
  nodes_[static_cast<std::size_t>(node)].next = free_;
  free_ = node;
}

inline void ReadyQueue::push(Nanoseconds ready, TaskId task) {
  if (ready == now_) {
    late_.push_back(task);
    std::push_heap(late_.begin(), late_.end(), [&](TaskId a, TaskId b) { return keys_[b.index()] < keys_[a.index()]; });
    return;
  }
  std::int32_t node = free_;
  if (node == kNone) {
    node = static_cast<std::int32_t>(nodes_.size());
    nodes_.push_back({ready, task, kNone});
  } else {
    free_ = nodes_[static_cast<std::size_t>(node)].next;
    nodes_[static_cast<std::size_t>(node)] = {ready, task, kNone};
  }
  link(node);
}

inline ReadyTask ReadyQueue::pop() {
  if (due_.empty() && late_.empty()) {
    const int l = std::countr_zero(levels_);
    Level& level = level_[static_cast<std::size_t>(l)];
    const std::int32_t first = level.first[static_cast<std::size_t>(std::countr_zero(level.used))];
    level.used &= level.used - 1;
    if (level.used == 0) levels_ &= levels_ - 1;
    const Node node = nodes_[static_cast<std::size_t>(first)];
    if (node.next == kNone) {
      free(first);
      now_ = node.ready;
      return {node.ready, node.task};
    }
    split(first);
  }
  return {now_, pop_due()};
}

}  // namespace pipesim

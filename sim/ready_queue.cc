#include "sim/ready_queue.h"

#include <algorithm>

namespace pipesim {

void ReadyQueue::reset(std::span<const TaskKey> keys, Nanoseconds now) {
  keys_ = keys;
  now_ = now;
  levels_ = 0;
  for (Level& level : level_) level.used = 0;
  nodes_.clear();
  free_ = kNone;
  due_.clear();
  late_.clear();
}

void ReadyQueue::push_late(TaskId task) {
  late_.push_back(task);
  std::push_heap(late_.begin(), late_.end(), [&](TaskId a, TaskId b) { return later(a, b); });
}

/// Moves `now` to the earliest task of the list: those ready then become due, the others move to lower
/// levels.
void ReadyQueue::split(std::int32_t first) {
  Nanoseconds earliest = node(first).ready;
  for (std::int32_t i = node(first).next; i != kNone; i = node(i).next) {
    earliest = std::min(earliest, node(i).ready);
  }
  now_ = earliest;
  for (std::int32_t i = first, next = kNone; i != kNone; i = next) {
    next = node(i).next;
    if (node(i).ready == earliest) {
      due_.push_back(node(i).task);
      free(i);
    } else {
      link(i);
    }
  }
  sort_due();
}

void ReadyQueue::sort_due() {
  constexpr std::size_t kFew = 8;
  if (due_.size() <= kFew) {
    // There are mostly two or three tasks, where std::sort costs several times as much.
    for (std::size_t i = 1; i < due_.size(); ++i) {
      const TaskId task = due_[i];
      std::size_t j = i;
      for (; j > 0 && later(task, due_[j - 1]); --j) due_[j] = due_[j - 1];
      due_[j] = task;
    }
    return;
  }
  // Tasks that were pushed in the order of their keys arrive sorted: lists are last in, first out.
  const auto is_later = [&](TaskId a, TaskId b) { return later(a, b); };
  if (!std::ranges::is_sorted(due_, is_later)) std::ranges::sort(due_, is_later);
}

std::size_t ReadyQueue::bytes() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(Node) +
         (due_.capacity() + late_.capacity()) * sizeof(TaskId);
}

}  // namespace pipesim

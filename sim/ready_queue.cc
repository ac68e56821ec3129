#include "sim/ready_queue.h"

#include <algorithm>

namespace pipesim {

void ReadyQueue::reset(std::span<const TaskKey> keys) {
  keys_ = keys;
  now_ = 0;
  levels_ = 0;
  for (Level& level : level_) level.used = 0;
  nodes_.clear();
  free_ = kNone;
  due_.clear();
  late_.clear();
}

void ReadyQueue::split(std::int32_t first) {
  Nanoseconds earliest = nodes_[static_cast<std::size_t>(first)].ready;
  for (std::int32_t i = first; i != kNone; i = nodes_[static_cast<std::size_t>(i)].next) {
    earliest = std::min(earliest, nodes_[static_cast<std::size_t>(i)].ready);
  }
  now_ = earliest;
  for (std::int32_t i = first; i != kNone;) {
    const std::int32_t next = nodes_[static_cast<std::size_t>(i)].next;
    if (nodes_[static_cast<std::size_t>(i)].ready == earliest) {
      due_.push_back(nodes_[static_cast<std::size_t>(i)].task);
      free(i);
    } else {
      link(i);
    }
    i = next;
  }
  if (due_.size() > 1) {
    const auto later = [&](TaskId a, TaskId b) { return keys_[b.index()] < keys_[a.index()]; };
    if (!std::is_sorted(due_.begin(), due_.end(), later)) std::sort(due_.begin(), due_.end(), later);
  }
}

TaskId ReadyQueue::pop_due() {
  const auto later = [&](TaskId a, TaskId b) { return keys_[b.index()] < keys_[a.index()]; };
  std::vector<TaskId>* from = &due_;
  if (!late_.empty() && (due_.empty() || later(due_.back(), late_.front()))) {
    std::pop_heap(late_.begin(), late_.end(), later);
    from = &late_;
  }
  const TaskId task = from->back();
  from->pop_back();
  return task;
}

std::size_t ReadyQueue::bytes() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(Node) +
         (due_.capacity() + late_.capacity()) * sizeof(TaskId);
}

}  // namespace pipesim

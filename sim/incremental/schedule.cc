#include "sim/incremental/schedule.h"

#include <algorithm>

namespace pipesim {

void Schedule::clear(std::size_t lanes) {
  constexpr std::size_t kLeastSpacing = 32;
  tasks_.clear();
  order_.clear();
  makespan_ = 0;
  num_lanes_ = lanes;
  spacing_ = std::max(kLeastSpacing, lanes);
  num_checkpoints_ = 0;
  lane_free_.clear();
  lane_idle_.clear();
  latest_end_.clear();
  free_.assign(lanes, 0);
  idle_.assign(lanes, 0);
}

Nanoseconds Schedule::latest_end(std::size_t from, std::size_t to) const {
  Nanoseconds latest = 0;
  for (std::size_t c = from; c < to; ++c) latest = std::max(latest, latest_end_[c]);
  return latest;
}

void Schedule::add_checkpoint() {
  lane_free_.insert(lane_free_.end(), free_.begin(), free_.end());
  lane_idle_.insert(lane_idle_.end(), idle_.begin(), idle_.end());
  latest_end_.push_back(0);
  if (num_checkpoints_ == open_.size()) open_.emplace_back();
  open_[num_checkpoints_++].clear();
}

/// A task is open at the checkpoints after its critical predecessor, up to itself.
void Schedule::list_open(TaskId task) {
  const ScheduledTask& t = tasks_[task.index()];
  const std::size_t queued = checkpoint_after(t.last), until = t.position / spacing_;
  for (std::size_t c = checkpoint_after(t.critical); c <= until; ++c) open_[c].push_back({task, c >= queued});
}

void Schedule::cut(std::size_t checkpoint) {
  if (checkpoint == num_checkpoints_) return;
  // What is open here may be open elsewhere afterwards.
  for (const OpenTask& open : open_[checkpoint]) {
    for (std::size_t c = checkpoint_after(tasks_[open.task.index()].critical); c < checkpoint; ++c) {
      const auto it = std::ranges::find(open_[c], open.task, &OpenTask::task);
      *it = open_[c].back();
      open_[c].pop_back();
    }
  }
  std::ranges::copy(lanes_free(checkpoint), free_.begin());
  std::ranges::copy(lanes_idle(checkpoint), idle_.begin());
  num_checkpoints_ = checkpoint;
  order_.resize(checkpoint * spacing_);
  lane_free_.resize(checkpoint * num_lanes_);
  lane_idle_.resize(checkpoint * num_lanes_);
  latest_end_.resize(checkpoint);
}

void Schedule::append(const EditableDag& dag, std::span<const TaskId> order) {
  for (const TaskId task : order) {
    const std::size_t position = order_.size();
    if (position % spacing_ == 0) add_checkpoint();
    order_.push_back(task);
    ScheduledTask& t = tasks_[task.index()];
    t.position = static_cast<std::uint32_t>(position);
    for (const LaneUse use : dag.lanes(task)) {
      Nanoseconds& free = free_[use.lane.index()];
      idle_[use.lane.index()] += t.start - free;
      free = t.start + use.hold;
    }
    latest_end_.back() = std::max(latest_end_.back(), t.end);
    list_open(task);
  }
  makespan_ = latest_end(0, num_checkpoints_);
}

std::size_t Schedule::bytes() const {
  std::size_t open = 0;
  for (const std::vector<OpenTask>& tasks : open_) open += tasks.capacity() * sizeof(OpenTask);
  return tasks_.capacity() * sizeof(ScheduledTask) + order_.capacity() * sizeof(TaskId) + open +
         (lane_free_.capacity() + lane_idle_.capacity() + latest_end_.capacity()) * sizeof(Nanoseconds);
}

}  // namespace pipesim

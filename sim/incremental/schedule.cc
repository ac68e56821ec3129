#include "sim/incremental/schedule.h"

#include <algorithm>

#include "sim/base/allocated_bytes.h"

namespace pipesim {

void Schedule::clear(std::size_t lanes) {
  constexpr std::size_t kLeastSpacing = 32;
  tasks_.clear();
  places_.clear();
  order_.clear();
  makespan_ = 0;
  num_lanes_ = lanes;
  spacing_ = std::max(kLeastSpacing, lanes);
  num_checkpoints_ = 0;
  lane_free_.clear();
  lane_held_.clear();
  latest_end_.clear();
  free_.assign(lanes, 0);
  held_.assign(lanes, 0);
}

Nanoseconds Schedule::latest_end(std::size_t from, std::size_t to) const {
  Nanoseconds latest = 0;
  for (std::size_t at = from; at < to;) {
    const bool whole = at % spacing_ == 0 && at + spacing_ <= to;
    latest = std::max(latest, whole ? latest_end_[at / spacing_] : tasks_[order_[at].index()].end);
    at += whole ? spacing_ : 1;
  }
  return latest;
}

void Schedule::add_checkpoint() {
  lane_free_.insert(lane_free_.end(), free_.begin(), free_.end());
  lane_held_.insert(lane_held_.end(), held_.begin(), held_.end());
  latest_end_.push_back(0);
  if (num_checkpoints_ == open_.size()) open_.emplace_back();
  open_[num_checkpoints_++].clear();
}

/// A task is open at the checkpoints after its critical predecessor, up to itself.
void Schedule::list_open(std::size_t position) {
  const TaskId task = order_[position];
  const ScheduledTask& t = tasks_[task.index()];
  const std::size_t queued = checkpoint_after(t.last), until = position / spacing_;
  for (std::size_t c = checkpoint_after(t.critical); c <= until; ++c) open_[c].push_back({task, c >= queued});
}

void Schedule::link(const EditableDag& dag, std::size_t checkpoint) {
  for (std::size_t i = checkpoint * spacing_; i < order_.size(); ++i) {
    list_open(i);
    const std::span<const TaskId> before = dag.predecessors(order_[i]);
    std::uint32_t first = kNowhere;
    for (const TaskId p : before) first = std::min(first, position(p));
    places_[order_[i].index()] = {static_cast<std::uint32_t>(i), first,
                                  static_cast<std::uint32_t>(before.size())};
  }
}

void Schedule::find_causes(const EditableDag& dag, TaskId task) {
  ScheduledTask& t = tasks_[task.index()];
  t.critical = t.last = TaskId();
  const auto later = [&](TaskId p, TaskId than) { return !than.valid() || position(p) > position(than); };
  for (const TaskId p : dag.predecessors(task)) {
    if (later(p, t.last)) t.last = p;
    if (tasks_[p.index()].end == t.ready && later(p, t.critical)) t.critical = p;
  }
}

void Schedule::cut(std::size_t checkpoint) {
  if (checkpoint == num_checkpoints_) return;
  // What is taken from here on may be open before.
  std::size_t first = checkpoint;
  for (const OpenTask& open : open_[checkpoint])
    first = std::min(first, checkpoint_after(tasks_[open.task.index()].critical));
  const auto is_behind = [&](const OpenTask& open) { return position(open.task) >= checkpoint * spacing_; };
  for (std::size_t c = first; c < checkpoint; ++c) std::erase_if(open_[c], is_behind);
  std::ranges::copy(lanes_free(checkpoint), free_.begin());
  std::ranges::copy(lanes_held(checkpoint), held_.begin());
  num_checkpoints_ = checkpoint;
  order_.resize(checkpoint * spacing_);
  lane_free_.resize(checkpoint * num_lanes_);
  lane_held_.resize(checkpoint * num_lanes_);
  latest_end_.resize(checkpoint);
}

void Schedule::append(const EditableDag& dag, std::span<const TaskId> order) {
  for (const TaskId task : order) {
    const std::size_t position = order_.size();
    if (position % spacing_ == 0) add_checkpoint();
    order_.push_back(task);
    places_[task.index()].position = static_cast<std::uint32_t>(position);
    const ScheduledTask& t = tasks_[task.index()];
    for (const LaneUse use : dag.lanes(task)) {
      free_[use.lane.index()] = t.start + use.hold;
      held_[use.lane.index()] += use.hold;
    }
    latest_end_.back() = std::max(latest_end_.back(), t.end);
  }
  makespan_ = latest_end(0, order_.size());
}

std::size_t Schedule::bytes() const {
  std::size_t open = 0;
  for (const std::vector<OpenTask>& tasks : open_) open += allocated_bytes(tasks);
  return open + allocated_bytes(tasks_, places_, order_, lane_free_, lane_held_, latest_end_);
}

}  // namespace pipesim

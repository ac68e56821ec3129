#include "sim/incremental/resimulate.h"

#include <algorithm>
#include <limits>

#include "sim/base/allocated_bytes.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
constexpr std::size_t kNoBoundary = std::numeric_limits<std::size_t>::max();

}  // namespace

void Resimulation::reset(const EditableDag& dag, const Schedule& old, std::span<const Nanoseconds> loads,
                         Nanoseconds limit) {
  dag_ = &dag;
  old_ = &old;
  loads_ = loads;
  limit_ = limit;
  visits_.resize(dag.num_ids());
  if (epoch_ > std::numeric_limits<std::uint32_t>::max() / 2) {
    std::ranges::fill(visits_, Visit{});
    epoch_ = 0;
  }
  first_epoch_ = ++epoch_;
  trace_.clear();
  trace_ready_.clear();
  trace_closed_ = 0;
  pieces_.clear();
  new_causes_.clear();
  base_ = 0;
}

/// Old tasks that the edit touches or removes; all added ones are too.
void Resimulation::mark_affected() {
  removed_at_.clear();
  for (const TaskId t : dag_->removed()) {
    visits_[t.index()] = {.epoch = first_epoch_, .state = kAffected};
    removed_at_.push_back(old_->position(t));
  }
  for (const TaskId t : dag_->touched()) visits_[t.index()] = {.epoch = first_epoch_, .state = kAffected};
}

/// The end of an old task before base_, else kOpen.
Nanoseconds Resimulation::end_if_known(TaskId task) const {
  if (is_new(task)) return kOpen;
  const std::uint32_t position = old_->position(task);
  if (position >= base_) return kOpen;
  const Nanoseconds end = (*old_)[task].end;
  for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p) {
    if (p->known && position >= p->begin && position < p->end) return end + p->shift;
  }
  return end;
}

Nanoseconds Resimulation::end_if_taken(TaskId task) const {
  const Visit& v = visits_[task.index()];
  return is_taken(v) ? v.time : end_if_known(task);
}

/// The largest end of a task's predecessors, on the old clock: those that were taken count as if `shift` had
/// not been, others as before the edit. kOpen if one is new and has not been taken.
Nanoseconds Resimulation::latest_predecessor(TaskId task, Nanoseconds shift) const {
  Nanoseconds latest = 0;
  for (const TaskId p : dag_->predecessors(task)) {
    const Nanoseconds taken = end_if_taken(p);
    if (taken == kOpen && is_new(p)) return kOpen;
    latest = std::max(latest, taken == kOpen ? (*old_)[p].end : taken - shift);
  }
  return latest;
}

/// earliest_affected() before anything is taken.
Nanoseconds Resimulation::list_candidates() {
  Nanoseconds earliest = kNever;
  candidates_.clear();
  for (const TaskId t : dag_->touched()) {
    earliest = std::min(earliest, (*old_)[t].ready);
    look_at(t, earliest);
  }
  for (const TaskId t : dag_->added_first()) look_at(t, earliest);
  return earliest;
}

/// When a task was ready that waits for old ones only, as things were before the edit.
void Resimulation::look_at(TaskId task, Nanoseconds& earliest) {
  Candidate c{.task = task};
  for (const TaskId p : dag_->predecessors(task)) {
    if (is_new(p)) return;
    c.ready = std::max(c.ready, (*old_)[p].end);
    c.known_at = std::max(c.known_at, old_->position(p) + 1);
  }
  earliest = std::min(earliest, c.ready);
  candidates_.push_back(c);
}

/// On the old clock: no affected task that is not taken yet becomes ready before, or was before the edit. One
/// that waits for a new task is ready no earlier than that one, so it need not be looked at; the others are
/// the candidates. An old task leaves its old place even if it becomes ready later.
Nanoseconds Resimulation::earliest_affected(Nanoseconds shift) {
  Nanoseconds earliest = kNever;
  candidates_.clear();
  const auto look_at = [&](TaskId t) {
    if (is_taken(visits_[t.index()])) return;
    const Nanoseconds ready = latest_predecessor(t, shift);
    if (!is_new(t)) earliest = std::min(earliest, (*old_)[t].ready);
    if (ready == kOpen) return;
    earliest = std::min(earliest, ready);
    candidates_.push_back({.task = t});
  };
  for (const TaskId t : dag_->touched()) look_at(t);
  for (std::size_t i = dag_->first_added().index(); i < dag_->num_ids(); ++i) look_at(TaskId(i));
  return earliest;
}

std::size_t Resimulation::first_removed(std::size_t from) const {
  std::size_t first = old_->order().size();
  for (const std::uint32_t position : removed_at_) {
    if (position >= from) first = std::min<std::size_t>(first, position);
  }
  return first;
}

/// The largest position from `from` on before which no task was ready at `time` or later, or was removed.
std::size_t Resimulation::position_before(Nanoseconds time, std::size_t from) const {
  const auto end = old_->order().begin() + static_cast<std::ptrdiff_t>(first_removed(from));
  const auto it = std::partition_point(old_->order().begin() + static_cast<std::ptrdiff_t>(from), end,
                                       [&](TaskId t) { return (*old_)[t].ready < time; });
  return static_cast<std::size_t>(it - old_->order().begin());
}

Resimulation::Visit& Resimulation::visit(TaskId task) {
  Visit& v = visits_[task.index()];
  if (is_new(task) || is_affected(v)) {
    const auto num_before = static_cast<std::int32_t>(dag_->predecessors(task).size());
    v = {.epoch = epoch_, .state = num_before * kMissing + (is_new(task) ? 0 : kAffected)};
    look_back(task, v);
    return v;
  }
  const Schedule::Place& place = old_->place(task);
  v = {.epoch = epoch_, .state = static_cast<std::int32_t>(place.num_before) * kMissing};
  // What was taken since base_ has come upon all its successors.
  if (place.first_before < base_) look_back(task, v);
  return v;
}

/// Counts the predecessors that were taken before base_, while that is what was before the run.
void Resimulation::look_back_to_old(TaskId task, Visit& v) const {
  for (const TaskId p : dag_->predecessors(task)) {
    if (is_new(p) || old_->position(p) >= base_) continue;
    v.state -= kMissing;
    v.time = std::max(v.time, (*old_)[p].end);
  }
}

/// Counts the predecessors that were taken before base_.
void Resimulation::look_back(TaskId task, Visit& v) const {
  if (epoch_ == first_epoch_ + 1) return look_back_to_old(task, v);
  for (const TaskId p : dag_->predecessors(task)) {
    const Nanoseconds end = end_if_taken(p);
    v.state -= end != kOpen ? kMissing : 0;
    v.time = std::max(v.time, end);
  }
}

inline void Resimulation::queue(TaskId task, Nanoseconds ready) {
  queue_.push(ready, task);
  dag_->prefetch(task);
}

/// Into the queue, if it is where the old simulation had it.
void Resimulation::queue_known(TaskId task, Nanoseconds shift) {
  Visit& v = visits_[task.index()];
  if (v.epoch == epoch_ || is_affected(v) || old_->position(task) < base_) return;
  v = {.time = (*old_)[task].ready + shift, .epoch = epoch_};
  queue(task, v.time);
}

/// Takes a part of the old order again, without a look at the queue.
void Resimulation::pass_known(std::size_t from, std::size_t to, Nanoseconds shift) {
  for (const TaskId task : old_->order().subspan(from, to - from)) {
    const ScheduledTask& t = (*old_)[task];
    for (const LaneUse use : dag_->lanes(task)) {
      Lane& lane = lanes_[use.lane.index()];
      lane.free = t.start + shift + use.hold;
      lane.deadline += use.hold;
    }
    for (const TaskId next : dag_->successors(task)) {
      if (!is_new(next) && (*old_)[next].last == task) queue_known(next, shift);
    }
  }
}

/// Queues the candidates that are ready; the predecessors of the others lead to them.
void Resimulation::queue_candidates() {
  const bool first = trace_.empty();
  for (const Candidate& c : candidates_) {
    if (first && c.known_at > base_) continue;
    Visit& v = visits_[c.task.index()];
    if (first) {
      v = {.time = c.ready, .epoch = epoch_, .state = is_new(c.task) ? 0 : kAffected};
    } else {
      visit(c.task);
    }
    if (is_ready(v)) queue(c.task, v.time);
  }
}

/// Begins where the old simulation was at a position, so much later. The lanes must be as at the checkpoint
/// before.
void Resimulation::restore(std::size_t position, Nanoseconds shift) {
  ++epoch_;
  base_ = position;
  old_taken_ = furthest_ = 0;
  queue_.reset(dag_->keys(), position == 0 ? 0 : old_->ready_at(position - 1) + shift);
  const std::size_t checkpoint = old_->checkpoint_at(position);
  if (checkpoint < old_->num_checkpoints()) {
    for (const auto [task, queued] : old_->open_tasks(checkpoint)) {
      if (queued) queue_known(task, shift);
    }
  }
  pass_known(checkpoint * old_->spacing(), position, shift);
  queue_candidates();
  boundary_ = checkpoint * old_->spacing();
  next_boundary();
}

/// False when a lane's deadline is over.
bool Resimulation::lanes_in_time(Nanoseconds now) {
  first_deadline_ = kNever;
  for (const Lane& lane : lanes_) first_deadline_ = std::min(first_deadline_, lane.deadline);
  return now <= first_deadline_;
}

inline bool Resimulation::hold_lane(LaneUse use, Nanoseconds start) {
  Lane& lane = lanes_[use.lane.index()];
  const bool in_time = start <= lane.deadline;
  lane.free = start + use.hold;
  lane.deadline += use.hold;
  return in_time;
}

/// Holds the lanes from when all are free; false when that is after one's deadline.
inline bool Resimulation::hold_lanes(const LaneUses& uses, Nanoseconds& start) {
  if (uses.size() == 1) {
    start = std::max(start, lanes_[uses[0].lane.index()].free);
    return hold_lane(uses[0], start);
  }
  for (const LaneUse use : uses) start = std::max(start, lanes_[use.lane.index()].free);
  bool in_time = true;
  for (const LaneUse use : uses) in_time &= hold_lane(use, start);
  return in_time;
}

void Resimulation::release(TaskId task, Nanoseconds end) {
  Visit& v = visits_[task.index()];
  if (v.epoch != epoch_) visit(task);
  v.time = std::max(v.time, end);
  v.state -= kMissing;
  if (!is_ready(v)) return;
  queue(task, v.time);
}

/// False once the makespan is certain to exceed the limit.
bool Resimulation::take(Nanoseconds ready, TaskId task) {
  if (ready > first_deadline_ && !lanes_in_time(ready)) return false;
  Nanoseconds start = ready;
  if (!hold_lanes(dag_->lanes(task), start)) return false;
  const Nanoseconds end = start + dag_->duration(task);
  if (end > limit_) return false;
  makespan_ = std::max(makespan_, end);
  for (const TaskId next : dag_->successors(task)) release(next, end);
  Visit& v = visits_[task.index()];
  v.time = end;
  v.state += kTaken;  // not before, since parallel edges release a task more than once
  trace_.push_back(task);
  trace_ready_.push_back(ready);
  if (is_new(task)) return true;
  ++old_taken_;
  furthest_ = std::max<std::size_t>(furthest_, old_->position(task));
  return true;
}

void Resimulation::next_boundary() {
  boundary_ += old_->spacing();
  if (boundary_ >= old_->order().size()) {
    boundary_ = expected_ = kNoBoundary;
    return;
  }
  expected_ = boundary_ - base_;
  for (const std::uint32_t position : removed_at_) {
    expected_ -= static_cast<std::size_t>(position >= base_ && position < boundary_);
  }
}

/// The same tasks have been taken as in the old simulation at the boundary, as far as they exist in both.
/// True when nothing is left to do.
bool Resimulation::at_boundary() {
  const std::size_t boundary = boundary_;
  Nanoseconds shift = 0;
  if (furthest_ < boundary && follows_old(shift) && skip(shift)) return true;
  if (boundary_ == boundary) next_boundary();
  return false;
}

/// Will everything be as it was from the boundary on, `shift` later, until a task comes that is affected?
bool Resimulation::follows_old(Nanoseconds& shift) {
  return open_tasks_follow(shift) && lanes_follow(shift) && ends_follow(shift);
}

bool Resimulation::open_tasks_follow(Nanoseconds& shift) {
  bool any = false;
  for (const auto [task, queued] : old_->open_tasks(boundary_checkpoint())) {
    if (is_affected(visits_[task.index()])) continue;
    const Visit& v = visits_[task.index()].epoch == epoch_ ? visits_[task.index()] : visit(task);
    const Nanoseconds later = v.time - (*old_)[task].ready;
    // Earlier by a shift is not looked at: tasks that did not shift could then be in the way.
    if (later < 0 || (any && later != shift)) return false;
    shift = later;
    any = true;
  }
  return any;
}

/// A lane that is free before anything else is ready may have been so for any time.
bool Resimulation::lanes_follow(Nanoseconds shift) const {
  const std::span<const Nanoseconds> before = old_->lanes_free(boundary_checkpoint());
  const Nanoseconds now = old_->ready_at(boundary_);
  for (std::size_t l = 0; l < before.size(); ++l) {
    if (std::max(lanes_[l].free - shift, now) != std::max(before[l], now)) return false;
  }
  return true;
}

/// No task that was taken ends so late that it delays one that is not open yet.
bool Resimulation::ends_follow(Nanoseconds shift) const {
  const Nanoseconds now = old_->ready_at(boundary_) + shift;
  for (const Piece& p : pieces_) {
    if (p.known && p.shift > shift && p.latest_end > now) return false;
  }
  for (const TaskId t : trace_) {
    const Nanoseconds end = visits_[t.index()].time;
    if (end <= now || is_new(t) || end <= (*old_)[t].end + shift) continue;
    for (const TaskId next : dag_->successors(t)) {
      const Visit& v = visits_[next.index()];
      if (is_new(next) || is_affected(v) || is_taken(v)) continue;
      if (end > (*old_)[next].ready + shift) return false;
    }
  }
  return true;
}

void Resimulation::close_trace() {
  if (trace_closed_ < trace_.size()) pieces_.push_back({.begin = trace_closed_, .end = trace_.size()});
  trace_closed_ = trace_.size();
}

void Resimulation::skip_to(std::size_t position, Nanoseconds shift) {
  for (const auto [task, queued] : old_->open_tasks(boundary_checkpoint())) {
    if (!is_affected(visits_[task.index()])) new_causes_.push_back(task);
  }
  close_trace();
  const Nanoseconds latest_end = old_->latest_end(boundary_, position) + shift;
  pieces_.push_back({boundary_, position, true, shift, latest_end});
  makespan_ = std::max(makespan_, latest_end);
}

/// From the boundary to the next affected task. True when nothing is left.
bool Resimulation::skip(Nanoseconds shift) {
  constexpr std::size_t kFew = 16;  // not worth skipping
  const Nanoseconds earliest = earliest_affected(shift);
  const std::size_t position = position_before(earliest, boundary_);
  if (earliest == kNever && position == old_->order().size()) {
    skip_to(position, shift);
    return true;
  }
  if (position < boundary_ + kFew) return false;
  const std::size_t from = boundary_checkpoint(), to = old_->checkpoint_at(position);
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].free = old_->lanes_free(to)[l] + shift;
    lanes_[l].deadline += old_->lanes_held(to)[l] - old_->lanes_held(from)[l];
  }
  skip_to(position, shift);
  restore(position, shift);
  return false;
}

/// The new order from the first checkpoint on.
void Resimulation::list_order() {
  order_.clear();
  for (const Piece& piece : pieces_) {
    const std::span<const TaskId> from = piece.known ? old_->order() : std::span<const TaskId>(trace_);
    for (std::size_t i = piece.begin; i < piece.end; ++i) order_.push_back(from[i]);
  }
}

bool Resimulation::all_taken() const {
  std::size_t taken = first_checkpoint_ * old_->spacing();
  for (const Piece& piece : pieces_) taken += piece.end - piece.begin;
  return taken + dag_->removed().size() == dag_->num_tasks() + dag_->num_ids() - dag_->first_added().index();
}

/// Sets the lanes to what they were at the first checkpoint.
void Resimulation::start_lanes() {
  lanes_.resize(loads_.size());
  const bool any = first_checkpoint_ > 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Nanoseconds held = any ? old_->lanes_held(first_checkpoint_)[l] : 0;
    lanes_[l] = {any ? old_->lanes_free(first_checkpoint_)[l] : 0, limit_ - loads_[l] + held};
  }
  first_deadline_ = 0;
}

std::optional<Nanoseconds> Resimulation::run() {
  mark_affected();
  const std::size_t position = position_before(list_candidates(), 0);
  first_checkpoint_ = old_->checkpoint_at(position);
  start_lanes();
  makespan_ = 0;
  start_ = position;
  const std::size_t from = first_checkpoint_ * old_->spacing();
  if (from < position) pieces_.push_back({from, position, true, 0, 0});
  restore(position, 0);
  constexpr std::size_t kBetweenLooks = 4096;
  for (std::size_t taken = 1; !queue_.empty(); ++taken) {
    if (taken % kBetweenLooks == 0) stop_if_late();
    const auto [ready, task] = queue_.pop();
    if (!take(ready, task)) return std::nullopt;
    while (old_taken_ >= expected_) {
      if (at_boundary()) return makespan();
    }
  }
  close_trace();
  if (!all_taken()) throw InternalError("an edit made a cycle of tasks");
  return makespan();
}

/// Takes the ends of tasks before the run into account, which few runs come to need.
std::optional<Nanoseconds> Resimulation::makespan() {
  makespan_ = std::max(makespan_, old_->latest_end(0, start_));
  return makespan_ <= limit_ ? std::optional(makespan_) : std::nullopt;
}

void Resimulation::set_times(Schedule& schedule) const {
  auto task = order_.begin();
  for (const Piece& piece : pieces_) {
    for (std::size_t i = piece.begin; i < piece.end; ++i, ++task) {
      ScheduledTask& t = schedule.task(*task);
      if (piece.known) {
        t.ready += piece.shift, t.start += piece.shift, t.end += piece.shift;
      } else {
        const Nanoseconds end = visits_[task->index()].time;
        t.ready = trace_ready_[i], t.start = end - dag_->duration(*task), t.end = end;
      }
    }
  }
}

std::optional<Nanoseconds> resimulate(const EditableDag& dag, const Schedule& previous,
                                      std::span<const Nanoseconds> loads, Nanoseconds limit,
                                      Resimulation& scratch) {
  scratch.reset(dag, previous, loads, limit);
  return scratch.run();
}

void apply(Resimulation& result, const EditableDag& dag, Schedule& schedule) {
  result.list_order();
  schedule.cut(result.first_checkpoint_);
  schedule.resize(dag.num_ids());
  result.set_times(schedule);
  schedule.append(dag, result.order_);
  for (const TaskId t : result.trace_) schedule.find_causes(dag, t);
  for (const TaskId t : result.new_causes_) schedule.find_causes(dag, t);
  schedule.link(dag, result.first_checkpoint_);
}

std::size_t Resimulation::bytes() const {
  return queue_.bytes() + allocated_bytes(visits_, candidates_, trace_, trace_ready_, lanes_);
}

}  // namespace pipesim

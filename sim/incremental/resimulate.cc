#include "sim/incremental/resimulate.h"

#include <algorithm>
#include <limits>

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
  affected_in_.resize(dag.num_ids(), 0);
  if (epoch_ > std::numeric_limits<std::uint32_t>::max() / 2) {
    std::ranges::fill(visits_, Visit{});
    std::ranges::fill(affected_in_, 0);
    epoch_ = 0;
  }
  first_epoch_ = ++epoch_;
  trace_.clear();
  trace_closed_ = 0;
  pieces_.clear();
  causes_.clear();
  base_ = 0;
}

/// Old tasks that the edit touches or removes, and all added ones.
void Resimulation::list_affected() {
  affected_.clear();
  for (const TaskId t : dag_->removed()) affected_in_[t.index()] = first_epoch_;
  for (const TaskId t : dag_->touched()) {
    affected_in_[t.index()] = first_epoch_;
    affected_.push_back({t});
  }
  for (std::size_t i = dag_->first_added().index(); i < dag_->num_ids(); ++i)
    affected_.push_back({TaskId(i)});
}

std::optional<Resimulation::Taken> Resimulation::taken(TaskId task) const {
  const Visit& v = visits_[task.index()];
  if (is_taken(v)) return Taken{v.start + dag_->duration(task), v.sequence};
  if (is_new(task)) return std::nullopt;
  const ScheduledTask& t = (*old_)[task];
  if (t.position >= base_) return std::nullopt;
  // Before the first checkpoint, or in a part that was skipped.
  for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p) {
    if (p->known && t.position >= p->begin && t.position < p->end)
      return Taken{t.end + p->shift, static_cast<std::uint32_t>(t.position + p->moved)};
  }
  return Taken{t.end, t.position};
}

/// How early a task can be ready, on the old clock: predecessors that were taken count as if `shift` had not
/// been, the others as before the edit, new ones as early as they can end. False while one of them is open.
bool Resimulation::bound(Affected& a, Nanoseconds shift) {
  const std::size_t first_new = affected_.size() - (dag_->num_ids() - dag_->first_added().index());
  Nanoseconds earliest = 0;
  for (const TaskId p : dag_->predecessors(a.task)) {
    Nanoseconds end = 0;
    if (const auto t = taken(p)) {
      end = t->end - shift;
    } else if (!is_new(p)) {
      end = (*old_)[p].end;
    } else {
      const Affected& before = affected_[first_new + p.index() - dag_->first_added().index()];
      if (before.earliest < 0) return false;
      end = before.earliest + dag_->duration(p);
    }
    earliest = std::max(earliest, end);
  }
  // An old task leaves its old place even if it becomes ready later.
  a.earliest = is_new(a.task) ? earliest : std::min(earliest, (*old_)[a.task].ready);
  return true;
}

void Resimulation::bound_affected(Nanoseconds shift) {
  const std::size_t touched = dag_->touched().size();
  unbounded_.clear();
  for (std::size_t i = touched; i < affected_.size(); ++i) {
    affected_[i].earliest = is_taken(visits_[affected_[i].task.index()]) ? kNever : -1;
    if (affected_[i].earliest < 0) unbounded_.push_back(static_cast<std::uint32_t>(i));
  }
  while (!unbounded_.empty()) {
    const std::size_t before = unbounded_.size();
    std::erase_if(unbounded_, [&](std::uint32_t i) { return bound(affected_[i], shift); });
    if (unbounded_.size() == before) throw InternalError("an edit made a cycle of tasks");
  }
  for (std::size_t i = 0; i < touched; ++i) {
    affected_[i].earliest = kNever;
    if (!is_taken(visits_[affected_[i].task.index()])) bound(affected_[i], shift);
  }
}

Nanoseconds Resimulation::earliest_affected() const {
  Nanoseconds earliest = kNever;
  for (const Affected& a : affected_) earliest = std::min(earliest, a.earliest);
  return earliest;
}

std::size_t Resimulation::first_removed(std::size_t from) const {
  std::size_t first = old_->order().size();
  for (const TaskId t : dag_->removed()) {
    const std::size_t position = (*old_)[t].position;
    if (position >= from) first = std::min(first, position);
  }
  return first;
}

/// The last checkpoint that is not after `position` and before which no task was ready at `time` or later.
std::size_t Resimulation::checkpoint_before(Nanoseconds time, std::size_t position) const {
  const std::size_t spacing = old_->spacing();
  std::size_t low = 0, high = std::min(position / spacing + 1, old_->num_checkpoints());
  while (low + 1 < high) {
    const std::size_t middle = (low + high) / 2;
    (old_->ready_at(middle * spacing - 1) < time ? low : high) = middle;
  }
  return low;
}

Resimulation::Visit& Resimulation::visit(TaskId task) {
  Visit& v = visits_[task.index()];
  v = {epoch_};
  std::uint32_t critical = 0, last = 0;
  for (const TaskId p : dag_->predecessors(task)) {
    const std::optional<Taken> t = taken(p);
    if (!t) {
      ++v.missing;
      continue;
    }
    if (t->end > v.ready || (t->end == v.ready && t->sequence >= critical)) {
      v.ready = t->end, v.critical = p, critical = t->sequence;
    }
    if (t->sequence >= last) v.last = p, last = t->sequence;
  }
  return v;
}

/// Begins where the old simulation was at a checkpoint, so much later. Lanes' idle times are the caller's.
void Resimulation::restore(std::size_t checkpoint, Nanoseconds shift) {
  ++epoch_;
  const std::size_t position = checkpoint * old_->spacing();
  base_ = position;
  old_taken_ = furthest_ = 0;
  boundary_ = position;
  next_boundary();
  queue_.reset(dag_->keys(), position == 0 ? 0 : old_->ready_at(position - 1) + shift);
  if (checkpoint < old_->num_checkpoints()) {
    for (const auto [task, queued] : old_->open_tasks(checkpoint)) {
      if (!queued || is_affected(task)) continue;
      const ScheduledTask& t = (*old_)[task];
      visits_[task.index()] = {epoch_, 0, 0, t.critical, t.last, t.ready + shift};
      queue_.push(t.ready + shift, task);
    }
  }
  for (const Affected& a : affected_) {
    if (is_taken(visits_[a.task.index()])) continue;
    const Visit& v = visit(a.task);
    if (v.missing == 0) queue_.push(v.ready, a.task);
  }
}

bool Resimulation::loads_exceed_limit() const {
  for (std::size_t l = 0; l < lane_idle_.size(); ++l) {
    if (loads_[l] + lane_idle_[l] > limit_) return true;
  }
  return false;
}

/// Holds the task's lanes from when all are free; false once a lane's load and idle time exceed the limit.
bool Resimulation::hold_lanes(const LaneUses& uses, Nanoseconds ready, Nanoseconds& start) {
  start = ready;
  for (const LaneUse use : uses) start = std::max(start, lane_free_[use.lane.index()]);
  bool within = true;
  for (const LaneUse use : uses) {
    const std::size_t l = use.lane.index();
    lane_idle_[l] += start - lane_free_[l];
    lane_free_[l] = start + use.hold;
    within &= loads_[l] + lane_idle_[l] <= limit_;
  }
  return within;
}

void Resimulation::release(TaskId before, TaskId after, Nanoseconds end) {
  Visit& v = visits_[after.index()];
  if (v.epoch != epoch_) visit(after);
  v.last = before;
  if (end >= v.ready) v.ready = end, v.critical = before;
  if (--v.missing == 0) queue_.push(v.ready, after);
}

/// False once the makespan is certain to exceed the limit.
bool Resimulation::take(Nanoseconds ready, TaskId task) {
  Visit& v = visits_[task.index()];
  if (!hold_lanes(dag_->lanes(task), ready, v.start)) return false;
  const Nanoseconds end = v.start + dag_->duration(task);
  if (end > limit_) return false;
  makespan_ = std::max(makespan_, end);
  for (const TaskId next : dag_->successors(task)) release(task, next, end);
  v.missing = kTaken;  // not before, since parallel edges release a task more than once
  v.sequence = sequence_++;
  trace_.push_back(task);
  if (is_new(task)) return true;
  ++old_taken_;
  furthest_ = std::max<std::size_t>(furthest_, (*old_)[task].position);
  return true;
}

void Resimulation::next_boundary() {
  boundary_ += old_->spacing();
  if (boundary_ >= old_->order().size()) {
    boundary_ = expected_ = kNoBoundary;
    return;
  }
  expected_ = boundary_ - base_;
  for (const TaskId t : dag_->removed()) {
    const std::size_t position = (*old_)[t].position;
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
    if (is_affected(task)) continue;
    const Visit& v = visits_[task.index()].epoch == epoch_ ? visits_[task.index()] : visit(task);
    const Nanoseconds later = v.ready - (*old_)[task].ready;
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
    if (std::max(lane_free_[l] - shift, now) != std::max(before[l], now)) return false;
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
    const Nanoseconds end = visits_[t.index()].start + dag_->duration(t);
    if (end <= now || is_new(t) || end <= (*old_)[t].end + shift) continue;
    for (const TaskId next : dag_->successors(t)) {
      if (is_affected(next) || is_taken(visits_[next.index()])) continue;
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
    if (is_affected(task)) continue;
    const Visit& v = visits_[task.index()];
    causes_.push_back({task, v.critical, queued ? v.last : (*old_)[task].last});
  }
  close_trace();
  const std::size_t to = (position + old_->spacing() - 1) / old_->spacing();
  const Nanoseconds latest_end = old_->latest_end(boundary_checkpoint(), to) + shift;
  const auto moved = static_cast<std::int64_t>(sequence_) - static_cast<std::int64_t>(boundary_);
  pieces_.push_back({boundary_, position, true, shift, moved, latest_end});
  sequence_ += static_cast<std::uint32_t>(position - boundary_);
  makespan_ = std::max(makespan_, latest_end);
}

/// From the boundary to the next affected task, as far as there is a checkpoint. True when nothing is left.
bool Resimulation::skip(Nanoseconds shift) {
  bound_affected(shift);
  const Nanoseconds earliest = earliest_affected();
  const std::size_t removed = first_removed(boundary_);
  if (earliest == kNever && removed == old_->order().size()) {
    skip_to(old_->order().size(), shift);
    return true;
  }
  if (earliest <= old_->ready_at(boundary_ - 1)) return false;
  const std::size_t to = checkpoint_before(earliest, removed);
  if (to <= boundary_checkpoint()) return false;
  const std::size_t from = boundary_checkpoint();
  for (std::size_t l = 0; l < lane_free_.size(); ++l) {
    const auto busy = [&](std::size_t c) { return old_->lanes_free(c)[l] - old_->lanes_idle(c)[l]; };
    const Nanoseconds busy_now = lane_free_[l] - lane_idle_[l] + busy(to) - busy(from);
    lane_free_[l] = old_->lanes_free(to)[l] + shift;
    lane_idle_[l] = lane_free_[l] - busy_now;
  }
  skip_to(to * old_->spacing(), shift);
  restore(to, shift);
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

std::optional<Nanoseconds> Resimulation::run() {
  const Schedule& old = *old_;
  list_affected();
  bound_affected(0);
  first_checkpoint_ = checkpoint_before(earliest_affected(), first_removed(0));
  lane_free_.assign(loads_.size(), 0);
  lane_idle_.assign(loads_.size(), 0);
  if (first_checkpoint_ > 0) {
    std::ranges::copy(old.lanes_free(first_checkpoint_), lane_free_.begin());
    std::ranges::copy(old.lanes_idle(first_checkpoint_), lane_idle_.begin());
  }
  makespan_ = old.latest_end(0, first_checkpoint_);
  sequence_ = static_cast<std::uint32_t>(first_checkpoint_ * old.spacing());
  if (loads_exceed_limit()) return std::nullopt;
  restore(first_checkpoint_, 0);
  while (!queue_.empty()) {
    const auto [ready, task] = queue_.pop();
    if (!take(ready, task)) return std::nullopt;
    while (old_taken_ >= expected_) {
      if (at_boundary()) return makespan_ <= limit_ ? std::optional(makespan_) : std::nullopt;
    }
  }
  close_trace();
  const std::size_t added = dag_->num_ids() - dag_->first_added().index();
  if (sequence_ + dag_->removed().size() != dag_->num_tasks() + added)
    throw InternalError("an edit made a cycle of tasks");
  return makespan_ <= limit_ ? std::optional(makespan_) : std::nullopt;
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
  for (const Resimulation::NewCause& c : result.causes_) {
    schedule.task(c.task).critical = c.critical;
    schedule.task(c.task).last = c.last;
  }
  auto task = result.order_.begin();
  for (const Resimulation::Piece& piece : result.pieces_) {
    for (std::size_t i = piece.begin; i < piece.end; ++i, ++task) {
      ScheduledTask& t = schedule.task(*task);
      if (piece.known) {
        t.ready += piece.shift, t.start += piece.shift, t.end += piece.shift;
        continue;
      }
      const Resimulation::Visit& v = result.visits_[task->index()];
      t = {v.ready, v.start, v.start + dag.duration(*task), t.position, v.critical, v.last};
    }
  }
  schedule.append(dag, result.order_);
}

std::size_t Resimulation::bytes() const {
  return visits_.capacity() * sizeof(Visit) + affected_in_.capacity() * sizeof(std::uint32_t) +
         queue_.bytes() + affected_.capacity() * sizeof(Affected) + trace_.capacity() * sizeof(TaskId) +
         (lane_free_.capacity() + lane_idle_.capacity()) * sizeof(Nanoseconds);
}

}  // namespace pipesim

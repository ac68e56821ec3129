#include "sim/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "sim/base/out_of_memory.h"

namespace pipesim {

Explainer::Explainer(const TaskDag& dag, const Timeline& timeline)
    : dag_(dag),
      timeline_(timeline),
      last_predecessor_(dag.num_tasks()),
      holds_(dag.num_lanes()),
      instants_(dag.num_lanes()) {
  const auto sooner = [&](TaskId a, TaskId b) {
    const Nanoseconds end_a = timeline.end[a.index()], end_b = timeline.end[b.index()];
    return end_a != end_b ? end_a < end_b : dag.key(b) < dag.key(a);
  };
  for (std::size_t i = 0; i < dag.num_tasks(); ++i) {
    const TaskId task(i);
    for (const TaskId next : dag.successors(task)) {
      TaskId& last = last_predecessor_[next.index()];
      if (!last.valid() || sooner(last, task)) last = task;
    }
    for (const LaneUse use : dag.lanes(task)) {
      auto& lane = (use.hold > 0 ? holds_ : instants_)[use.lane.index()];
      lane.push_back({timeline.start[i] + use.hold, task, use.lane});
    }
  }
  for (auto& lane : holds_) std::ranges::sort(lane);
  for (auto& lane : instants_) std::ranges::sort(lane);
}

Explanation Explainer::explain(TaskId task) const {
  const Nanoseconds start = timeline_.start[task.index()], task_ready = ready(task);
  if (start == 0) return {Cause::Nothing, {}, {}, task_ready};
  Hold hold = last_hold(task);
  if (std::max(hold.until, task_ready) < start) hold = std::max(hold, place_in_line(task));
  if (hold.until > task_ready) return {Cause::Lane, hold.task, hold.lane, task_ready};
  const TaskId input = last_predecessor_[task.index()];
  return {input.valid() ? Cause::Input : Cause::Nothing, input, {}, task_ready};
}

Nanoseconds Explainer::ready(TaskId task) const {
  const TaskId input = last_predecessor_[task.index()];
  return input.valid() ? timeline_.end[input.index()] : 0;
}

/// The last hold of the task's lanes that was over when it started; until = 0 if there is none.
Explainer::Hold Explainer::last_hold(TaskId before) const {
  Hold last;
  for (const LaneUse use : dag_.lanes(before)) {
    const std::vector<Hold>& holds = holds_[use.lane.index()];
    const auto after = std::ranges::upper_bound(holds, timeline_.start[before.index()], {}, &Hold::until);
    if (after != holds.begin() && std::prev(after)->until > last.until) last = *std::prev(after);
  }
  return last;
}

/// A hold of 0 ns blocks as well: who waits for lane B makes those behind it on lane A wait with it, even if
/// it holds A for no time. So when no real hold ended just then, looks for the shortest way, over tasks that
/// started at that instant, to one that waited for a real hold; returns the first task on it. Going the
/// shortest way, the next explanation is nearer, so that a critical path can't go in circles.
Explainer::Hold Explainer::place_in_line(TaskId task) const {
  const Nanoseconds start = timeline_.start[task.index()];
  struct Place {
    TaskId task;
    Hold first;
  };
  std::vector<Place> line{{task, {}}};
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const LaneUse use : dag_.lanes(line[i].task)) {
      const std::vector<Hold>& instants = instants_[use.lane.index()];
      for (auto it = std::ranges::lower_bound(instants, start, {}, &Hold::until);
           it != instants.end() && it->until == start; ++it) {
        const Hold& h = *it;
        if (ready(h.task) >= start || std::ranges::find(line, h.task, &Place::task) != line.end()) continue;
        const Hold first = i == 0 ? h : line[i].first;
        if (last_hold(h.task).until == start) return first;
        line.push_back({h.task, first});
      }
    }
  }
  return {};
}

Explanation explain(const TaskDag& dag, const Timeline& timeline, TaskId task) {
  return Explainer(dag, timeline).explain(task);
}

namespace {

TaskId last_task(const TaskDag& dag, const Timeline& timeline) {
  TaskId last;
  for (std::size_t i = 0; i < dag.num_tasks(); ++i) {
    if (timeline.end[i] != timeline.makespan) continue;
    if (!last.valid() || dag.key(TaskId(i)) < dag.key(last)) last = TaskId(i);
  }
  return last;
}

/// How much of [step.from, step.until) the next step, a communication task, was ready and stood in line.
Nanoseconds time_in_line(const CriticalStep& step, const Explanation& next) {
  if (next.cause != Cause::Lane) return 0;
  return step.until - std::clamp(next.ready, step.from, step.until);
}

}  // namespace

CriticalPath critical_path(const TaskDag& dag, const Timeline& timeline,
                           const std::function<bool(TaskId)>& is_communication) {
  CriticalPath path;
  const auto too_many = [&] {
    return out_of_memory(fmt::format("looking for the critical path of {} tasks", dag.num_tasks()),
                         "Take fewer microbatches (--microbatches) or devices");
  };
  const Explainer explainer = with_memory(too_many, [&] { return Explainer(dag, timeline); });
  Nanoseconds until = timeline.makespan;
  for (TaskId task = last_task(dag, timeline); task.valid(); task = path.steps.back().why.task) {
    const Explanation why = explainer.explain(task);
    // A measured timeline may begin with idle time; it is the first step's.
    const Nanoseconds from = why.cause == Cause::Nothing ? 0 : timeline.start[task.index()];
    path.steps.push_back({task, from, until, 0, why});
    until = from;
  }
  std::ranges::reverse(path.steps);
  for (std::size_t i = 0; i < path.steps.size(); ++i) {
    CriticalStep& step = path.steps[i];
    if (i + 1 < path.steps.size() && is_communication(path.steps[i + 1].task)) {
      step.waiting = time_in_line(step, path.steps[i + 1].why);
    }
    path.waiting += step.waiting;
    (is_communication(step.task) ? path.communication : path.compute) +=
        step.until - step.from - step.waiting;
  }
  return path;
}

}  // namespace pipesim

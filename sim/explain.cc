#include "sim/explain.h"

#include <algorithm>

namespace pipesim {

Explainer::Explainer(const TaskDag& dag, const Timeline& timeline)
    : dag_(dag), timeline_(timeline), last_predecessor_(dag.num_tasks()), holds_(dag.num_lanes()) {
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
    const Nanoseconds start = timeline.start[i];
    for (const LaneUse use : dag.lanes(task)) holds_[use.lane.index()].push_back({start + use.hold, start, task});
  }
  for (auto& lane : holds_) std::ranges::sort(lane);
}

Explanation Explainer::explain(TaskId task) const {
  const Nanoseconds start = timeline_.start[task.index()];
  const TaskId input = last_predecessor_[task.index()];
  const Nanoseconds ready = input.valid() ? timeline_.end[input.index()] : 0;
  if (start == 0) return {Cause::Nothing, {}, {}, ready};
  Nanoseconds until = 0;
  Explanation held = last_hold(task, until);
  if (until < start && ready < start) {
    const Explanation in_line = place_in_line(task);
    if (in_line.cause == Cause::Lane) return in_line;
  }
  if (until > ready) return held;
  return {input.valid() ? Cause::Input : Cause::Nothing, input, {}, ready};
}

/// The last hold of the lane that was over when the task started, holds of 0 ns aside.
const Explainer::Hold* Explainer::last_hold(LaneId lane, TaskId before) const {
  const std::vector<Hold>& holds = holds_[lane.index()];
  const Nanoseconds start = timeline_.start[before.index()];
  auto after = std::ranges::upper_bound(holds, start, {}, &Hold::until);
  while (after != holds.begin()) {
    --after;
    if (after->from < after->until && after->task != before) return &*after;
  }
  return nullptr;
}

}  // namespace pipesim

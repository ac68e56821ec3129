#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/task_dag.h"
#include "sim/timeline.h"

namespace pipesim {

enum class Cause : std::uint8_t {
  Nothing,  ///< nothing was in its way
  Input,    ///< it started when `task`, a predecessor, had ended
  Lane,     ///< it was ready earlier and started when `task` let go of `lane`
};

/// Why a task started when it did.
struct Explanation {
  Cause cause = Cause::Nothing;
  TaskId task;            ///< whom it waited for; invalid for Nothing
  LaneId lane;            ///< only for Lane
  Nanoseconds ready = 0;  ///< when its last predecessor ended
  bool operator==(const Explanation&) const = default;
};

/// What a task waited for: its last predecessor to end (at equal ends the one with the smaller key), or the
/// last task that held one of its lanes (at equal times the first lane in its list), whichever is later; at
/// equal times the predecessor. On a
/// simulated timeline that is exactly when the task started; on a measured one it may be a little before.
/// Takes time in the size of the graph; for many tasks use an Explainer.
Explanation explain(const TaskDag& dag, const Timeline& timeline, TaskId task);

/// Answers explain() for many tasks of one timeline: prepared in time in the size of the graph, then fast per
/// task. Refers to the graph and the timeline.
class Explainer {
 public:
  Explainer(const TaskDag& dag, const Timeline& timeline);
  [[nodiscard]] Explanation explain(TaskId task) const;

 private:
  struct Hold {
    Nanoseconds until = 0;
    TaskId task;
    LaneId lane;
    auto operator<=>(const Hold&) const = default;
  };
  [[nodiscard]] Nanoseconds ready(TaskId task) const;
  [[nodiscard]] Hold last_hold(TaskId before) const;
  [[nodiscard]] Hold place_in_line(TaskId task) const;

  const TaskDag& dag_;
  const Timeline& timeline_;
  std::vector<TaskId> last_predecessor_;     ///< by task: the one that ended last
  std::vector<std::vector<Hold>> holds_;     ///< by lane, by `until`: holds of more than 0 ns
  std::vector<std::vector<Hold>> instants_;  ///< by lane, by `until`: holds of 0 ns
};

/// A task of the critical path and the part [from, until) of the makespan that it accounts for: from its
/// start until the next step's start.
struct CriticalStep {
  TaskId task;
  Nanoseconds from = 0;
  Nanoseconds until = 0;
  Nanoseconds waiting = 0;  ///< of it, how long the next step stood in line, see CriticalPath
  Explanation why;          ///< why the task started then: names the step before
  bool operator==(const CriticalStep&) const = default;
};

/// The chain of tasks that made the makespan as long as it is: from the task that ended last (the smaller key
/// at equal ends) back, each step to what explain() names. The steps tile [0, makespan] without gaps.
///
/// compute + communication + waiting = makespan:
/// - waiting: when the next step is a communication task that waited for a lane, the part of this step in
/// which it was
///   ready already. Time on a congested link thus counts once as communication, for the last in line;
/// - the rest of each step is its task's, communication or compute. A communication task's latency (after its
/// largest
///   hold) counts as communication.
struct CriticalPath {
  std::vector<CriticalStep> steps;
  Nanoseconds compute = 0;
  Nanoseconds communication = 0;
  Nanoseconds waiting = 0;
  bool operator==(const CriticalPath&) const = default;
};

CriticalPath critical_path(const TaskDag& dag, const Timeline& timeline,
                           const std::function<bool(TaskId)>& is_communication);

}  // namespace pipesim

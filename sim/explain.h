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
  TaskId task;            ///< the task that it waited for; invalid for Nothing
  LaneId lane;            ///< only for Lane
  Nanoseconds ready = 0;  ///< when its last predecessor ended
  bool operator==(const Explanation&) const = default;
};

/// What a task waited for, which is the later of two: its last predecessor to end (at equal ends the one with
/// the smaller key), and the last task that held one of its lanes (at equal times the first lane in its
/// list). At equal times it is the predecessor. On a simulated timeline the task started exactly then; on a
/// measured one it may have started a little later. Takes time linear in the size of the graph; for many
/// tasks use an Explainer.
Explanation explain(const TaskDag& dag, const Timeline& timeline, TaskId task);

/// Answers explain() for many tasks of one timeline. Construction takes time linear in the size of the graph;
/// each answer is fast. Keeps references to the graph and the timeline.
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
/// start to the start of the next step.
struct CriticalStep {
  TaskId task;
  Nanoseconds from = 0;
  Nanoseconds until = 0;
  Nanoseconds waiting = 0;  ///< the part of it in which the next step waited for a lane, see CriticalPath
  Explanation why;          ///< why the task started then; names the step before
  bool operator==(const CriticalStep&) const = default;
};

/// The chain of tasks that determines the makespan. It starts at the task that ended last (at equal ends the
/// one with the smaller key) and goes back, each time to the task that explain() names. The steps cover [0,
/// makespan] without gaps.
///
/// compute + communication + waiting = makespan:
/// - waiting: the next step is a communication task that waited for a lane; the part of this step in which
/// that task was ready already. Time on a congested link thus counts once as communication, for the last in
/// line.
/// - communication or compute: the rest of each step, by the kind of its task. The latency of a communication
/// task, after its largest hold, counts as communication.
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

#pragma once

#include <string>
#include <vector>

#include "sim/task_dag.h"
#include "sim/timeline.h"

namespace pipesim {

/// Returns the rules that the timeline breaks, in words, at most `most` of them; empty when the timeline is a
/// legal schedule of the graph. Shares no code with the engine, so that it can judge it. Each task and each
/// lane is checked on its own:
/// - one start and end per task, start ≥ 0, end = start + duration, makespan = largest end;
/// - no task starts before its predecessors have ended;
/// - the holds of a lane do not overlap (a hold of 0 ns may touch the edge of another, not lie inside it);
/// - makespan ≥ the longest chain of durations and ≥ the busiest lane's sum of holds.
/// Does not ask whether a task could have started earlier. `dag` must be free of cycles.
std::vector<std::string> check_schedule(const TaskDag& dag, const Timeline& timeline, std::size_t most = 20);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "sim/ready_queue.h"
#include "sim/task_dag.h"
#include "sim/timeline.h"

namespace pipesim {

/// What simulate() needs while it runs, kept by the caller so that the next run allocates nothing. One per
/// thread. 4 bytes a task, 8 a lane, and 16 for each task that is ready at the same time.
class SimulationScratch {
 public:
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend void simulate(const TaskDag&, SimulationScratch&, Timeline&);
  friend void simulate_rest(const TaskDag&, const std::vector<bool>&, std::span<const Nanoseconds>,
                            SimulationScratch&, Timeline&);
  void reset(const TaskDag& dag);
  std::size_t run(const TaskDag& dag, Timeline& out);

  std::vector<std::int32_t> missing_;   ///< by task: predecessors that have not ended yet
  std::vector<Nanoseconds> lane_free_;  ///< by lane
  ReadyQueue queue_;
};

/// Runs the graph in virtual time. Again and again takes the ready task with the smallest (ready time, key),
/// starts it at max(ready time, when each of its lanes is free), holds its lanes from there and makes
/// successors ready as it ends. A task's place in a lane is taken in that order and never changed: a later
/// task does not overtake on a lane that is idle while an earlier one waits for its other lanes.
///
/// Pure: equal graphs give equal timelines, in whatever order their tasks were added. `out` keeps its memory.
/// DependencyCycle when tasks wait for each other.
void simulate(const TaskDag& dag, SimulationScratch& scratch, Timeline& out);
Timeline simulate(const TaskDag& dag);
/// Goes on where other tasks were simulated elsewhere: `done` (by task) have their times in `out` already,
/// and have left each lane at `lane_free` (by lane; 0 where there is none). None of them waits for one that
/// is not, InternalError. The makespan is that of the others.
void simulate_rest(const TaskDag& dag, const std::vector<bool>& done, std::span<const Nanoseconds> lane_free,
                   SimulationScratch& scratch, Timeline& out);

/// Tasks that wait for each other in a circle, in order, from its smallest id; empty when there are none. No
/// shorter circle goes through the one that was met first.
std::vector<TaskId> find_cycle(const TaskDag& dag);

/// Some tasks can't start: `dependency cycle: 3 -> 5 -> 3` (task ids).
class DependencyCycle : public InputError {
 public:
  explicit DependencyCycle(std::vector<TaskId> tasks);
  [[nodiscard]] std::span<const TaskId> tasks() const { return tasks_; }  ///< as find_cycle() gives them

 private:
  std::vector<TaskId> tasks_;
};

/// What find_cycle() found in words, for who knows what the tasks are: "A waits for B, which waits for C,
/// which waits for A". Of long ones the first twenty. Not empty.
std::string why_never(std::span<const TaskId> cycle, const std::function<std::string(TaskId)>& name);

}  // namespace pipesim

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

/// Scratch memory of simulate(), kept by the caller so that the next run allocates nothing. One per thread.
/// Takes 4 bytes per task, 8 per lane, and 16 for each task that is ready at the same time.
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

/// Runs the graph in virtual time. Repeats: take the ready task with the smallest (ready time, key), start it
/// at the latest of its ready time and the times at which its lanes are free, hold its lanes from there, and
/// make its successors ready when it ends. A task's place in a lane is fixed when the task is taken: a later
/// task does not overtake on an idle lane while an earlier one waits for its other lanes.
///
/// Pure: equal graphs give equal timelines, in whatever order their tasks were added. `out` keeps its memory.
/// Throws DependencyCycle when tasks wait for each other.
void simulate(const TaskDag& dag, SimulationScratch& scratch, Timeline& out);
Timeline simulate(const TaskDag& dag);
/// Simulates the rest of a graph of which some tasks are done already. `done` marks those by task; their
/// times are in `out`. `lane_free`: by lane, when they leave it; 0 for a lane that they do not use. A done
/// task must not wait for one that is not done: InternalError. The makespan is that of the tasks simulated
/// here.
void simulate_rest(const TaskDag& dag, const std::vector<bool>& done, std::span<const Nanoseconds> lane_free,
                   SimulationScratch& scratch, Timeline& out);

/// Tasks that wait for each other in a circle, in order, beginning with the smallest id; empty when there are
/// none. It is a shortest circle through the first task that was met on one.
std::vector<TaskId> find_cycle(const TaskDag& dag);

/// Some tasks can't start: `dependency cycle: 3 -> 5 -> 3` (task ids).
class DependencyCycle : public InputError {
 public:
  explicit DependencyCycle(std::vector<TaskId> tasks);
  [[nodiscard]] std::span<const TaskId> tasks() const { return tasks_; }  ///< as find_cycle() gives them

 private:
  std::vector<TaskId> tasks_;
};

/// The result of find_cycle() in words, with task names from `name`: "A waits for B, which waits for C, which
/// waits for A". Lists the first twenty tasks of a long cycle. The cycle must not be empty.
std::string why_never(std::span<const TaskId> cycle, const std::function<std::string(TaskId)>& name);

}  // namespace pipesim

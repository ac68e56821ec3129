#pragma once

#include <vector>

#include "sim/bounds/lane_loads.h"
#include "sim/bounds/one_machine.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Lower bounds of the iteration time of one strategy, in whatever order its devices take their steps.
///
/// Load. A lane is busy for all that tasks of its operators hold it, once for each microbatch.
///
/// Heads and tails. Of one microbatch's tasks, without the order of steps, a task's head is the longest chain
/// before it, its tail the longest one after it. Every microbatch has equal tasks and edges, and what comes
/// once an iteration waits for all of them, so heads and tails hold for each. A lane is a machine whose jobs
/// have these heads, the holds in all microbatches, and latencies and tails (sim/bounds/one_machine.h).
class IterationBound {
 public:
  /// The bound by load. Reads operators only; far cheaper than a simulation.
  Nanoseconds of_loads(const PlanContents& contents, const BoundStrategy& strategy);
  /// The bound by heads and tails. `unordered`: by ExpandedStrategy::expand_unordered().
  Nanoseconds of_chains(const ExpandedStrategy& unordered);

 private:
  // What is known of a lane's jobs, and where they are in jobs_.
  struct Lane {
    std::size_t jobs = 0, first = 0;
    Nanoseconds work = 0, latest_release = 0, longest_rest = 0;
  };
  Nanoseconds longest_chain(const TaskDag& dag);
  Nanoseconds busiest_lane(const ExpandedStrategy& unordered, Nanoseconds bound);

  std::vector<TaskId> order_;             // each after its predecessors
  std::vector<std::int32_t> missing_;     // by task: predecessors
  std::vector<Nanoseconds> head_, tail_;  // by task
  std::vector<Lane> lanes_;
  std::vector<LaneJob> jobs_, scratch_;  // jobs: lane after lane
  std::vector<std::size_t> heaviest_;    // lanes, the most work first
  LaneLoads loads_;
};

/// A lower bound of the overflow of every iteration: by how much weights, gradients and optimizer state
/// exceed the devices' memory, summed.
Bytes permanent_overflow(const PlanContents& contents, const BoundStrategy& strategy);

}  // namespace pipesim

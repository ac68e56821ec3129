#pragma once

#include <vector>

#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Lower bounds of the iteration time of one strategy, in whatever order its devices take their steps.
///
/// Load. A lane is busy for all that tasks of its operators hold it, once for each microbatch.
///
/// Heads and tails. Of one microbatch's tasks, without the order of steps, a task's head is the longest chain
/// before it, its tail the longest one after it. Every microbatch has equal tasks and edges, and what comes
/// once an iteration waits for all of them, so heads and tails hold for each. Take any tasks of one lane. The
/// first begins no earlier than the least head. After the last has let go of the lane, at least the least
/// tail follows:
///   makespan ≥ least head + Σ holds · microbatches + least (latency + tail)
/// (the bound of one machine with heads and tails of Carlier, "The one-machine sequencing problem", 1982).
/// This is evaluated for each lane and each set of its tasks whose tails are at least a given length.
class IterationBound {
 public:
  /// The bound by load. Reads operators only; far cheaper than a simulation.
  Nanoseconds of_loads(const PlanContents& contents, const BoundStrategy& strategy);
  /// The bound by heads and tails. `unordered`: by ExpandedStrategy::expand_unordered().
  Nanoseconds of_chains(const ExpandedStrategy& unordered);

 private:
  struct Use {  // of a lane
    std::int32_t lane;
    Nanoseconds hold;  // in all microbatches
    Nanoseconds head, after;
  };
  void find_heads_and_tails(const TaskDag& dag);

  std::vector<TaskId> order_;             // each after its predecessors
  std::vector<std::int32_t> missing_;     // by task: predecessors
  std::vector<Nanoseconds> head_, tail_;  // by task
  std::vector<Use> uses_;
  std::vector<Nanoseconds> load_;  // by lane
};

/// A lower bound of the overflow of every iteration: by how much weights, gradients and optimizer state
/// exceed the devices' memory, summed.
Bytes permanent_overflow(const PlanContents& contents, const BoundStrategy& strategy);

}  // namespace pipesim

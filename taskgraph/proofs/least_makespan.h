#pragma once

#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// Lower bounds of the time that all the plan's microbatches take.
struct LeastMakespan {
  Nanoseconds time = 0;      ///< from the timeline of few
  Nanoseconds of_steps = 0;  ///< without it: the steps of a device, one after the other
};

/// Bounds the time with all of the plan's microbatches from the timeline of a strategy expanded with few.
/// Returns zeros where few are all.
///
/// The proof. By steady_state.h the two timelines are the same up to the moment when some device begins a
/// step that the other does not have there, or a step of the last of few microbatches, for which work waits
/// that belongs to no microbatch. From then on every device has the rest of its steps before it. Each step
/// begins when the one before it has ended, and takes at least the longest path through its tasks, and at
/// least as long as these hold a lane.
LeastMakespan least_makespan(const ExpandedStrategy& few, const Timeline& timeline);

}  // namespace pipesim

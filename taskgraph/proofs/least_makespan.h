#pragma once

#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// Lower bounds of the time that all the plan's microbatches take.
struct LeastMakespan {
  Nanoseconds time = 0;      ///< from the timeline of few
  Nanoseconds of_steps = 0;  ///< without it: the steps of a device, one after the other
};

/// What the timeline of a strategy expanded with few microbatches tells of that with all of the plan's. With
/// as many, zeros.
///
/// The proof. By steady_state.h the two timelines are the same up to the moment when some device begins a
/// step that the other does not have there, or one of the last of few microbatches, on which work waits that
/// belongs to none. From then on every device has the rest of its steps before it. Each begins when the one
/// before it has ended, and takes at least the longest path through its tasks, and as long as these hold a
/// lane.
LeastMakespan least_makespan(const ExpandedStrategy& few, const Timeline& timeline);

}  // namespace pipesim

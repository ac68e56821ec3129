#pragma once

#include "costmodel/calibration.h"
#include "executor/measuring/task_durations.h"
#include "sim/base/rng.h"
#include "sim/task_dag.h"

namespace pipesim {

/// The time of an iteration when the durations of its tasks vary as they were measured to.
struct PredictedInterval {
  Nanoseconds median = 0;
  Nanoseconds low = 0, high = 0;  ///< 5 % and 95 % of the iterations are faster
  int iterations = 0;             ///< that were simulated; 0: there is no interval
};

/// Simulates iterations whose tasks take durations drawn from the distributions of their keys, by their
/// quantile Φ(√½ Z + √½ Zᵢ): Z is common to all tasks of an iteration (a slower clock, a neighbour that uses
/// the memory), Zᵢ is a task's own (both standard normal). Independent draws alone would cancel out over many
/// tasks and promise intervals that are too narrow, a common draw alone would leave out that devices wait for
/// the slowest. Keys that were not measured vary like the measured ones, relatively. `durations`: of all
/// tasks, with KeyPlace::Calibration.
PredictedInterval predict_interval(const TaskDag& dag, const TaskDurations& durations,
                                   const Calibration& calibration, int iterations, Rng rng);

}  // namespace pipesim

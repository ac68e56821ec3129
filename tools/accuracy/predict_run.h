#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "tools/accuracy/measured_run.h"

namespace pipesim {

/// What the simulator says of a run. Memory is that of the last device, which measures in the runs that we
/// know; both figures contain the run's workspace.
struct PredictedRun {
  Seconds time;  ///< of an iteration
  Bytes peak;
  Bytes state;        ///< weights, gradients, optimizer state
  bool fits = true;   ///< into all devices
  std::string error;  ///< why the run can't be predicted: its recipe does not suit its model; else ""
};

/// The time that the cost model says.
PredictedRun predict_collective(const ExpressedCollective& collective);

/// Predicts runs as `simulate --recipe` does, equal ones once, on all cores. `predicted`, with the number of
/// runs that are done, is called now and then from any thread, one call at a time.
std::vector<PredictedRun> predict_runs(const std::vector<ExpressedRun>& runs,
                                       const std::function<void(std::size_t done)>& predicted = {});

}  // namespace pipesim

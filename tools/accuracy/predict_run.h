#pragma once

#include <map>
#include <string>

#include "sim/base/units.h"
#include "tools/accuracy/measured_run.h"

namespace pipesim {

/// What the simulator says of the run's last device, which measures in the runs that we know. Both contain
/// the run's workspace.
struct PredictedMemory {
  Bytes peak;
  Bytes state;      ///< weights, gradients, optimizer state
  Seconds seconds;  ///< of an iteration
};

/// Predicts runs as `simulate --recipe` does; equal ones once.
class RunPredictor {
 public:
  /// InputError when the run's recipe does not suit its model.
  PredictedMemory predict(const ExpressedRun& run);

 private:
  std::map<std::string, PredictedMemory> known_;
};

}  // namespace pipesim

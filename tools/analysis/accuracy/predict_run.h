#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "sim/base/units.h"
#include "tools/analysis/accuracy/tables/measured_run.h"

namespace pipesim {

/// The prediction for a run. Memory is that of the last device, where most tables measure it (see
/// ExpressedRun::fullest_peak); both memory figures contain the run's workspace.
struct PredictedRun {
  Seconds time;                                ///< of an iteration
  std::optional<PredictionInterval> interval;  ///< of the time; of runs, with constants
  std::optional<Seconds> undisturbed;          ///< of a mixture, if its parts did not slow each other
  Bytes peak;
  Bytes state;        ///< weights, gradients, optimizer state
  bool fits = true;   ///< into all devices
  std::string error;  ///< why the run can't be predicted: its recipe does not suit its model; else ""
};

/// The time that the cost model says. `calibration`: null, or what CostModel takes.
PredictedRun predict_collective(const ExpressedCollective& collective,
                                const Calibration* calibration = nullptr);

/// Predicts runs as `simulate --recipe` does, on all cores; equal runs are simulated only once. `predicted`
/// is called now and then with the number of runs that are done, from any thread, one call at a time. A
/// calibration with constants gives intervals, for which each run is simulated once more for each constant.
std::vector<PredictedRun> predict_runs(const std::vector<ExpressedRun>& runs,
                                       const Calibration* calibration = nullptr,
                                       const std::function<void(std::size_t done)>& predicted = {});

/// Predicts runs as predict_runs() does, but without intervals.
std::vector<PredictedRun> predict_times(const std::vector<ExpressedRun>& runs,
                                        const Calibration* calibration = nullptr);

/// Returns ln(seconds) of each run; all runs must be predictable.
std::vector<double> log_times(const std::vector<ExpressedRun>& runs, const ClusterConstants& constants);

}  // namespace pipesim

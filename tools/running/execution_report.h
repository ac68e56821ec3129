#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/cpu/equality.h"
#include "executor/measuring/host_noise.h"
#include "executor/measuring/measurement.h"
#include "executor/measuring/prediction_interval.h"
#include "executor/ranks/device_worlds.h"
#include "tools/analysis/inputs/subject.h"

namespace pipesim {

/// All results of running a plan.
struct ExecutionReport {
  std::string backend;
  std::size_t devices = 0;  ///< that do anything
  int ranks = 1;
  Nanoseconds predicted = 0;
  bool calibrated = false;     ///< predicted from measured durations
  PredictedInterval interval;  ///< of iterations; none without a calibration
  StepStatistics measured;
  std::optional<HostNoise> noise;  ///< of the cores of CPU devices
  bool emulated = false;
  bool links_emulated = false;  ///< between virtual devices
  std::string times_by;         ///< of tasks on GPUs: by what; else empty
  std::string collection_cost;  ///< of taking them, where it costs
  std::string not_quiet;        ///< why the figures can't be relied on; empty when they can
  double overhead = 0;          ///< seconds per task
  std::vector<TimeDifference> operators, links;
  std::vector<DeviceMemory> predicted_memory;
  std::vector<MeasuredMemory> measured_memory;
  std::vector<double> losses;            ///< by step, where the model has a scalar result
  std::vector<StepEquality> equalities;  ///< by checked step
  /// (predicted − measured) / measured: above 0 where the prediction is too long.
  [[nodiscard]] double error() const;
};

}  // namespace pipesim

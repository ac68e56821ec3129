#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/measuring/sample_set.h"
#include "tools/analysis/inputs/plan_set.h"
#include "tools/base/shown_progress.h"
#include "tools/running/plan_run.h"

namespace pipesim {

/// Measures the durations of tasks by running whole plans, so that kernels run in their order, with their
/// caches and neighbours.
class Calibrator {
 public:
  /// `progress` is told what is going on, and must outlive the calibrator. GPUs begin a step
  /// when the host has enqueued it (GpuSetting::held), since predictions have no host.
  Calibrator(const RunSetting& setting, ShownProgress& progress);

  /// Runs all plans, at least one, in turns, so that other load on the host affects all of them alike. On
  /// parts of one GPU, copies of a plan run on the parts that it leaves idle (side_by_side), unless links are
  /// emulated.
  void sample(const std::vector<NamedSubject>& plans);
  /// Runs a plan once more, predicted from `measured`, to see what a calibration says of the host now. Where
  /// the prediction is further off than `tolerance`, a share of the measured time, the plan is run again, up
  /// to three times in all, as a moment's load may be over. Returns the run with the nearest prediction.
  [[nodiscard]] ExecutionReport run_again(const NamedSubject& plan, const Calibration& measured,
                                          double tolerance);
  /// By key, of all plans that were run.
  [[nodiscard]] std::vector<Measurement> measurements() const { return samples_.all(); }

  /// Steps that were sampled, and those of them that GPUs began before the host had enqueued them all.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t outran_host() const { return outran_host_; }

  /// Fits corrections by class, from tasks whose durations the calibrations of `plans` had to estimate from
  /// other sizes. These calibrations must have no corrections yet. Classes with hardly any estimated task are
  /// left out.
  std::map<std::string, Correction> fit(const std::vector<NamedSubject>& plans);

 private:
  [[nodiscard]] NamedSubject busy(NamedSubject plan) const;
  PlanSamples run(const NamedSubject& plan, std::int64_t steps);

  RunSetting setting_;
  ShownProgress& progress_;
  SampleSet samples_;
  std::int64_t steps_ = 0, outran_host_ = 0;
};

}  // namespace pipesim

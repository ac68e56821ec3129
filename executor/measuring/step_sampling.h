#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "executor/measuring/task_durations.h"
#include "executor/run/execution.h"
#include "executor/run/training.h"

namespace pipesim {

/// Turns executed steps into samples of the keys that the cost model asks for: kernels in the order, with the
/// buffers and with the caches of a plan.
///
/// A task's time begins when its list is free and what it waits for is done, so that what the executor adds
/// is in it; a transfer's when the last member has come. A sample is the mean over the tasks of one key on
/// one device in one step, which keeps what a step has in common and makes sums over tasks right. Interrupted
/// tasks count as dropped.
class StepSampling {
 public:
  /// For a run whose devices are all in this process.
  explicit StepSampling(const TaskDurations& durations);
  void add(const StepRecord& step);
  /// By key, in the order of TaskDurations::keys.
  [[nodiscard]] const std::vector<Measurement>& measurements() const { return measurements_; }
  /// Whether every key has a clean sample.
  [[nodiscard]] bool complete() const;

 private:
  struct TaskTime {
    Nanoseconds begin = 0, end = 0;
    bool interrupted = false;
  };
  [[nodiscard]] std::vector<TaskTime> task_times(const StepRecord& step) const;

  const TaskDurations& durations_;
  std::vector<Measurement> measurements_;
};

/// How long a plan is run to take samples.
struct SamplingLength {
  std::int64_t warmup = 3;  ///< steps that are not sampled
  std::int64_t steps = 30;
  /// While some key has no clean sample, all steps are run again, up to so many times.
  std::int64_t repeats = 5;
};

struct SampledSteps {
  std::vector<Measurement> measurements;  ///< by key, in the order of TaskDurations::keys
  std::int64_t steps = 0;
  std::int64_t outran_host = 0;  ///< of them: StepRecord::outran_host
};

/// Runs the training and takes samples; keys whose tasks were all interrupted have none.
SampledSteps sample_steps(Training& training, const TaskDurations& durations, const SamplingLength& length);

}  // namespace pipesim

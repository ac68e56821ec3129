#include "executor/measuring/step_sampling.h"

#include <algorithm>

namespace pipesim {

StepSampling::StepSampling(const TaskDurations& durations) : durations_(durations) {
  for (const TaskDurations::Key& key : durations.keys) measurements_.push_back({key.key, key.work, {}, 0});
}

std::vector<StepSampling::TaskTime> StepSampling::task_times(const StepRecord& step) const {
  std::vector<TaskTime> times(durations_.unit_of_task.size());
  const InstructionTime* before = nullptr;
  for (const InstructionTime& t : step.times) {
    const bool follows = before && before->list == t.list;
    TaskTime& task = times[t.task.index()];
    task.begin = std::max({task.begin, t.ready, follows ? before->end : 0});
    task.end = std::max(task.end, t.end);
    task.interrupted |= t.interrupted;
    before = &t;
  }
  return times;
}

void StepSampling::add(const StepRecord& step) {
  struct Sum {
    double seconds = 0;
    int units = 0;
  };
  std::map<std::pair<std::size_t, DeviceId>, Sum> sums;
  const std::vector<TaskTime> times = task_times(step);
  for (const TaskDurations::Unit& unit : durations_.units) {
    Nanoseconds duration = 0;
    bool interrupted = false;
    for (const TaskId t : unit.tasks) {
      const TaskTime& time = times[t.index()];
      duration += std::max<Nanoseconds>(1, time.end - time.begin);
      interrupted |= time.interrupted;
    }
    if (interrupted) {
      ++measurements_[unit.key].dropped;
      continue;
    }
    Sum& sum = sums[{unit.key, unit.device}];
    sum.seconds += to_seconds(duration).value;
    ++sum.units;
  }
  for (const auto& [where, sum] : sums) measurements_[where.first].seconds.push_back(sum.seconds / sum.units);
}

bool StepSampling::complete() const {
  return std::none_of(measurements_.begin(), measurements_.end(),
                      [](const Measurement& m) { return m.seconds.empty(); });
}

SampledSteps sample_steps(Training& training, const TaskDurations& durations, const SamplingLength& length) {
  SampledSteps sampled;
  StepSampling sampling(durations);
  for (std::int64_t s = 0; s < length.warmup; ++s) training.step();
  for (std::int64_t round = 0; round == 0 || (round <= length.repeats && !sampling.complete()); ++round) {
    for (std::int64_t s = 0; s < length.steps; ++s) {
      const StepRecord step = training.step();
      sampling.add(step);
      ++sampled.steps;
      sampled.outran_host += step.outran_host ? 1 : 0;
    }
  }
  sampled.measurements = sampling.measurements();
  return sampled;
}

}  // namespace pipesim

#include "tools/running/calibrator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "costmodel/distribution.h"
#include "costmodel/fit.h"
#include "search/evaluator.h"
#include "tools/running/side_by_side.h"

namespace pipesim {
namespace {

// Devices that begin after the host hardly feel other load on it, and what a run prepares takes seconds.
constexpr std::int64_t most_rounds = 4, most_rounds_on_gpus = 2, least_tasks = 3;

std::string class_of(const CalibrationKey& key) {
  return key.subject == CalibrationKey::Subject::Transfer ? key.name : correction_class(key.pass);
}

Nanoseconds time_of(const Subject& s) {
  const CostModel costs(s.topology, &*s.calibration);
  Evaluator evaluator(s.graph, costs, s.plan.options);
  return evaluator.evaluate(s.plan.strategy).time;
}

}  // namespace

Calibrator::Calibrator(const RunSetting& setting, ShownProgress& progress)
    : setting_(setting), progress_(progress) {
  if (setting_.gpus) setting_.gpus->held = true;
}

PlanSamples Calibrator::run(const NamedSubject& plan, std::int64_t steps) {
  DeviceWorlds worlds(plan.subject.topology, false);
  require_cores(plan.subject.plan.strategy, setting_, worlds);
  SamplingLength length;
  length.warmup = setting_.warmup;
  length.steps = steps;
  PlanSamples samples = PlanRun(plan.subject, setting_, worlds).sample(length);
  steps_ += samples.sampled.steps;
  outran_host_ += samples.sampled.outran_host;
  return samples;
}

// Parts of a GPU share its memory, so a part is faster alone than beside busy ones. Threads of CPUs run as
// the plan says, and so do parts whose links are emulated: transfers of copies would wait for those of the
// plan on the links that they share.
NamedSubject Calibrator::busy(NamedSubject plan) const {
  if (setting_.gpus && setting_.gpus->virtual_devices && !setting_.gpus->emulate_links) {
    Subject& s = plan.subject;
    s.plan.strategy = side_by_side(s.graph, s.topology, s.plan);
  }
  return plan;
}

void Calibrator::sample(const std::vector<NamedSubject>& plans) {
  const std::int64_t rounds = std::min(setting_.gpus ? most_rounds_on_gpus : most_rounds, setting_.steps);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t steps = setting_.steps * (round + 1) / rounds - setting_.steps * round / rounds;
    for (std::size_t p = 0; p < plans.size(); ++p) {
      progress_.show(fmt::format("round {} of {}, plan {} of {}: {}", round + 1, rounds, p + 1, plans.size(),
                                 plans[p].name));
      samples_.add(run(busy(plans[p]), steps).sampled.measurements);
    }
  }
  progress_.clear();
}

ExecutionReport Calibrator::run_again(const NamedSubject& plan, const Calibration& measured,
                                      double tolerance) {
  constexpr int most_runs = 3;
  Subject predicted = plan.subject;
  predicted.calibration = measured;
  // Emulated devices take what is predicted for them, which must not be what they were measured to take.
  const Subject& subject = setting_.emulated ? plan.subject : predicted;
  std::optional<ExecutionReport> nearest;
  for (int run = 1; run <= most_runs; ++run) {
    progress_.show(fmt::format("running {} once more", plan.name));
    DeviceWorlds worlds(plan.subject.topology, false);
    ExecutionReport report = PlanRun(subject, setting_, worlds).report(nullptr);
    if (setting_.emulated) report.predicted = time_of(predicted);
    if (!nearest || std::abs(report.error()) < std::abs(nearest->error())) nearest = std::move(report);
    if (std::abs(nearest->error()) <= tolerance) break;
  }
  progress_.clear();
  return *std::move(nearest);
}

std::map<std::string, Correction> Calibrator::fit(const std::vector<NamedSubject>& plans) {
  std::vector<ExecutedTask> tasks;
  for (const NamedSubject& plan : plans) {
    progress_.show(fmt::format("fitting to {}", plan.name));
    const PlanSamples samples = run(busy(plan), setting_.steps);
    for (std::size_t k = 0; k < samples.sampled.measurements.size(); ++k) {
      const Measurement& m = samples.sampled.measurements[k];
      const Estimate& estimate = samples.durations.keys[k].estimate;
      if (estimate.source == DurationSource::Measured || m.seconds.empty()) continue;
      tasks.push_back({class_of(m.key), estimate.time.value, Distribution(m.seconds).median().value});
    }
  }
  progress_.clear();
  auto corrections = fit_corrections(tasks, static_cast<std::int64_t>(plans.size()));
  std::erase_if(corrections, [](const auto& c) { return c.second.tasks < least_tasks; });
  return corrections;
}

}  // namespace pipesim

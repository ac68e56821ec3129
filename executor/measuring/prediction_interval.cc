#include "executor/measuring/prediction_interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "sim/simulate.h"

namespace pipesim {
namespace {

constexpr double common_share = 0.5;

double standard_normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

double normal_probability(double z) { return std::erfc(-z * std::numbers::sqrt2 / 2) / 2; }

// A key's durations, divided by their median.
class RelativeDurations {
 public:
  RelativeDurations(const TaskDurations& durations, const Calibration& calibration) {
    std::vector<double> pool;
    for (const TaskDurations::Key& key : durations.keys) {
      const auto measured = calibration.keys.find(key.key);
      of_key_.emplace_back();
      if (measured == calibration.keys.end()) continue;
      of_key_.back() = measured->second.durations();
      const double median = of_key_.back()->median().value;
      for (const double p : {0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95})
        pool.push_back(of_key_.back()->quantile(p).value / median);
    }
    if (!pool.empty()) pool_ = Distribution(std::move(pool));
  }
  [[nodiscard]] bool empty() const { return !pool_; }
  [[nodiscard]] double quantile(std::size_t key, double p) const {
    const Distribution& d = of_key_[key] ? *of_key_[key] : *pool_;
    return d.quantile(p).value / d.median().value;
  }

 private:
  std::vector<std::optional<Distribution>> of_key_;
  std::optional<Distribution> pool_;
};

Nanoseconds scaled(Nanoseconds duration, double factor) {
  return static_cast<Nanoseconds>(std::llround(static_cast<double>(duration) * factor));
}

// The same tasks with durations and holds multiplied by a factor each.
void scale_tasks(const TaskDag& dag, std::span<const double> factors, TaskDag& out) {
  out.clear();
  std::vector<LaneUse> lanes;
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    const TaskId task(t);
    const Nanoseconds duration = scaled(dag.duration(task), factors[t]);
    lanes.clear();
    for (const LaneUse& use : dag.lanes(task))
      lanes.push_back({use.lane, std::min(duration, scaled(use.hold, factors[t]))});
    out.add_task(dag.key(task), duration, lanes);
  }
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    for (const TaskId next : dag.successors(TaskId(t))) out.add_edge(TaskId(t), next);
  }
  out.finish();
}

}  // namespace

PredictedInterval predict_interval(const TaskDag& dag, const TaskDurations& durations,
                                   const Calibration& calibration, int iterations, Rng rng) {
  const RelativeDurations relative(durations, calibration);
  if (relative.empty() || iterations < 1) return {};
  std::vector<double> factors(dag.num_tasks(), 1.0), makespans;
  TaskDag drawn;
  SimulationScratch scratch;
  Timeline timeline;
  for (int i = 0; i < iterations; ++i) {
    const double common = std::sqrt(common_share) * standard_normal(rng);
    for (const TaskDurations::Unit& unit : durations.units) {
      const double own = std::sqrt(1 - common_share) * standard_normal(rng);
      const double factor = relative.quantile(unit.key, normal_probability(common + own));
      for (const TaskId t : unit.tasks) factors[t.index()] = factor;
    }
    scale_tasks(dag, factors, drawn);
    simulate(drawn, scratch, timeline);
    makespans.push_back(std::max(1e-9, to_seconds(timeline.makespan).value));
  }
  const Distribution all(std::move(makespans));
  return {to_nanoseconds(all.median()), to_nanoseconds(all.quantile(0.05)),
          to_nanoseconds(all.quantile(0.95)), iterations};
}

}  // namespace pipesim

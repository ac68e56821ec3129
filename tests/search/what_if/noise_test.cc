#include "search/what_if/noise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "costmodel/calibration.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

struct NoisyPlan {
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  Evaluator evaluator{graph, costs, {}};
  NoisyPlan(const std::string& model, const std::string& system)
      : graph(make_zoo_model(model)), topology(make_topology(system)) {}
  [[nodiscard]] BoundStrategy bound(const std::string& baseline) const {
    return evaluator.contents().bind(baseline_strategy(baseline, graph, costs));
  }
  IterationTimes times(const std::string& baseline, const NoiseRequest& request) {
    return iteration_times(evaluator, bound(baseline), request);
  }
};

// On a chain of passes of one device, the device's factor is that of the iteration: log-normal with mean 1.
TEST(NoisyIterations, OfAChainFollowTheClosedForm) {
  NoisyPlan plan("lenet", "p100-4x4:1");
  constexpr double kSpread = 0.1;
  const IterationTimes times = plan.times("single-device", {{.devices = kSpread}, 20'000, 7, 2});
  for (const auto& [share, z] : {std::pair(0.05, -1.6449), std::pair(0.5, 0.0), std::pair(0.95, 1.6449)}) {
    const double closed = static_cast<double>(times.quiet()) * std::exp(kSpread * z - kSpread * kSpread / 2);
    EXPECT_NEAR(static_cast<double>(times.quantile(share)) / closed, 1, 0.006) << share;
  }
  EXPECT_NEAR(static_cast<double>(times.mean()) / static_cast<double>(times.quiet()), 1, 0.003);
}

// Independent passes of one device: the variance of the sum is the sum of variances.
TEST(NoisyIterations, OfManyOperatorsAddUpTheirVariances) {
  NoisyPlan plan("alexnet:batch=8", "p100-4x4:1");
  constexpr double kSpread = 0.2;
  const IterationTimes times = plan.times("single-device", {{.operators = kSpread}, 20'000, 7, 1});
  double variance = 0;
  const Evaluated found =
      plan.evaluator.evaluate(plan.bound("single-device"), {.extent = Extent::All, .part = Labels::Make});
  const TaskDag& dag = found.part->dag();
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    const auto d = static_cast<double>(dag.duration(TaskId(t)));
    if (found.part->labels()[t].kind != TaskKind::Barrier) variance += d * d * std::expm1(kSpread * kSpread);
  }
  double square = 0;
  for (const Nanoseconds time : times.sorted())
    square += std::pow(static_cast<double>(time) - static_cast<double>(times.quiet()), 2);
  EXPECT_NEAR(square / 20'000 / variance, 1, 0.05);
}

TEST(NoisyIterations, WithoutNoiseAreAllTheSame) {
  NoisyPlan plan("lenet", "p100-4x4:1");
  const IterationTimes times = plan.times("data-parallel", {{}, 5, 1, 1});
  EXPECT_EQ(times.quantile(0), times.quiet());
  EXPECT_EQ(times.quantile(1), times.quiet());
}

// Copies wait for the slowest, so noise of devices makes data parallelism slower on average.
TEST(NoisyIterations, OfCopiesTakeAsLongAsTheSlowest) {
  NoisyPlan plan("lenet", "p100-4x4");
  const IterationTimes times = plan.times("data-parallel", {{.devices = 0.1}, 400, 1, 2});
  EXPECT_GT(times.mean(), times.quiet());
}

TEST(NoisyIterations, DoNotDependOnThreads) {
  NoisyPlan plan("lenet", "p100-4x4");
  const Noise noise = parse_noise("operators=5%,links=20%,devices=3%,stragglers=10%x2");
  EXPECT_EQ(plan.times("data-parallel", {noise, 100, 3, 1}).sorted(),
            plan.times("data-parallel", {noise, 100, 3, 4}).sorted());
  EXPECT_NE(plan.times("data-parallel", {noise, 100, 3, 1}).sorted(),
            plan.times("data-parallel", {noise, 100, 4, 1}).sorted());
}

// Samples of log-normal durations tell their spread; keys with few samples do not count.
TEST(MeasuredNoise, IsTheSpreadOfSamples) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  Calibration calibration;
  calibration.runs.emplace_back();
  const auto add = [&](CalibrationKey::Subject subject, std::int64_t size, int samples, double spread) {
    Measurement m;
    m.key.subject = subject;
    m.key.sizes = {size};
    for (int i = 0; i < samples; ++i) m.seconds.push_back(1e-3 * std::exp(spread * normal(random)));
    calibration.add(m);
  };
  for (std::int64_t size = 1; size <= 5; ++size) {
    add(CalibrationKey::Subject::Operator, size, 400, 0.03);
    add(CalibrationKey::Subject::Transfer, size, 400, 0.1);
    add(CalibrationKey::Subject::Operator, 10 + size, 3, 0.9);
  }
  const Noise noise = measured_noise(calibration);
  EXPECT_NEAR(noise.operators, 0.03, 0.003);
  EXPECT_NEAR(noise.links, 0.1, 0.01);
  EXPECT_EQ(noise.devices, 0);
  Calibration few;
  few.runs.emplace_back();
  EXPECT_THROW((void)measured_noise(few), InputError);
}

TEST(NoiseTexts, ReadBack) {
  const Noise noise = parse_noise("operators=2%,links=0.1,devices=3%,hosts=1%,stragglers=0.1%x1.5");
  EXPECT_DOUBLE_EQ(noise.links, 0.1);
  EXPECT_DOUBLE_EQ(noise.stragglers, 0.001);
  EXPECT_EQ(parse_noise(noise.str()), noise);
  for (const char* wrong : {"", "operators", "operators=", "operators=-1%", "operators=200%", "gpu=1%",
                            "stragglers=1%", "stragglers=1%x0.5", "links=1%,"})
    EXPECT_THROW((void)parse_noise(wrong), InputError) << wrong;
  EXPECT_DOUBLE_EQ(parse_objective("p95").quantile, 0.95);
  EXPECT_LT(parse_objective("mean").quantile, 0);
  for (const char* wrong : {"", "p", "95", "p0", "p100", "p9x"})
    EXPECT_THROW((void)parse_objective(wrong), InputError) << wrong;
}

TEST(IterationTimesOfSamples, AreOrderedAndInterpolated) {
  const IterationTimes times({40, 10, 30, 20}, 8);
  EXPECT_EQ(times.quantile(0), 10);
  EXPECT_EQ(times.quantile(1), 40);
  EXPECT_EQ(times.quantile(0.5), 25);
  EXPECT_EQ(times.mean(), 25);
  EXPECT_EQ(times.quiet(), 8);
}

}  // namespace
}  // namespace pipesim

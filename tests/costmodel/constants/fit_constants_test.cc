#include "costmodel/constants/fit_constants.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "sim/base/rng.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

// A cluster whose runs take a sum of parts, each of which a constant multiplies.
struct Cluster {
  ClusterConstants names;
  std::vector<std::vector<double>> parts;  // of a run: seconds, by constant; the last is of none

  [[nodiscard]] std::vector<double> predict(const ClusterConstants& constants) const {
    std::vector<double> logs;
    for (const std::vector<double>& run : parts) {
      double seconds = run.back();
      for (std::size_t j = 0; j < constants.constants.size(); ++j)
        seconds += run[j] * std::exp(constants.constants[j].log);
      logs.push_back(std::log(seconds));
    }
    return logs;
  }
};

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) * std::cos(2 * std::numbers::pi * rng.uniform());
}

Cluster random_cluster(Rng& rng, std::size_t runs) {
  Cluster cluster;
  cluster.names.device = "A100-80GB";
  cluster.names.constants = {{ConstantKind::Update, "", 0}, {ConstantKind::Host, "megatron", 0}};
  for (std::size_t i = 0; i < runs; ++i)
    cluster.parts.push_back({rng.uniform(), rng.uniform(), 0.2 * rng.uniform()});
  return cluster;
}

// Runs of the truth, each off by some noise.
std::vector<FittedRun> measured_runs(const Cluster& cluster, const ClusterConstants& truth, double noise,
                                     Rng& rng) {
  std::vector<FittedRun> runs;
  for (const double log : cluster.predict(truth))
    runs.push_back({log + noise * normal(rng), fmt::format("family {}", runs.size() / 3)});
  return runs;
}

ConstantsFit fit(const Cluster& cluster, const std::vector<FittedRun>& runs) {
  return fit_constants(runs, cluster.names, [&](const ClusterConstants& c) { return cluster.predict(c); });
}

TEST(FitConstants, FindsATruthWithoutNoise) {
  Rng rng(1);
  const Cluster cluster = random_cluster(rng, 12);
  ClusterConstants truth = cluster.names;
  truth.constants[0].log = std::log(0.8), truth.constants[1].log = std::log(1.7);
  const ConstantsFit found = fit(cluster, measured_runs(cluster, truth, 0, rng));
  EXPECT_NEAR(std::exp(found.constants.constants[0].log), 0.8, 0.01);
  EXPECT_NEAR(std::exp(found.constants.constants[1].log), 1.7, 0.01);
  for (const double error : found.after) EXPECT_NEAR(error, 0, 0.01);
  EXPECT_GT(std::abs(found.before.front()), 0.05);
  EXPECT_LT(found.constants.discrepancy, 0.02);
}

// Over many clusters whose constants are drawn from the priors.
TEST(FitConstants, IntervalsHoldTheTruthAndRunsThatWereNotSeen) {
  constexpr int kClusters = 200;
  constexpr double kNoise = 0.05;
  Rng rng(7);
  int constants_held = 0, constants = 0, runs_held = 0, runs = 0;
  for (int k = 0; k < kClusters; ++k) {
    const Cluster cluster = random_cluster(rng, 18);
    ClusterConstants truth = cluster.names;
    for (Constant& c : truth.constants) c.log = prior_deviation(c.kind) * normal(rng);
    const ConstantsFit found = fit(cluster, measured_runs(cluster, truth, kNoise, rng));
    for (std::size_t j = 0; j < 2; ++j) {
      const double deviation = std::sqrt(found.constants.covariance[j * 3]);
      constants_held +=
          std::abs(found.constants.constants[j].log - truth.constants[j].log) < 1.6449 * deviation;
      ++constants;
    }
    const Cluster unseen = random_cluster(rng, 10);
    const std::vector<FittedRun> later = measured_runs(unseen, truth, kNoise, rng);
    const std::vector<double> predicted = unseen.predict(found.constants);
    const auto slopes = sensitivities_of(found.constants, predicted,
                                         [&](const ClusterConstants& c) { return unseen.predict(c); });
    for (std::size_t i = 0; i < later.size(); ++i) {
      const double off = std::abs(predicted[i] - later[i].measured);
      runs_held += off < 1.6449 * log_deviation(found.constants, slopes[i]);
      ++runs;
    }
  }
  EXPECT_GT(constants_held, 0.8 * constants);
  EXPECT_GT(runs_held, 0.85 * runs);
  EXPECT_LT(runs_held, 0.99 * runs) << "intervals are too wide to say anything";
}

// One run took ten times as long, for a reason that no constant has.
TEST(FitConstants, BearsARunThatIsFarOff) {
  Rng rng(3);
  const Cluster cluster = random_cluster(rng, 15);
  ClusterConstants truth = cluster.names;
  truth.constants[1].log = std::log(1.5);
  std::vector<FittedRun> runs = measured_runs(cluster, truth, 0.01, rng);
  runs[4].measured += std::log(10);
  const ConstantsFit found = fit(cluster, runs);
  EXPECT_NEAR(std::exp(found.constants.constants[1].log), 1.5, 0.15);
}

// Errors that go with families, not with constants: figures that were good stay.
TEST(FitConstants, DoesNotFollowWhatConstantsCannotExplain) {
  Rng rng(5);
  Cluster cluster = random_cluster(rng, 24);
  for (auto& run : cluster.parts) run = {0.05, 0.05, 1 + rng.uniform()};
  std::vector<FittedRun> runs = measured_runs(cluster, cluster.names, 0, rng);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].measured += i / 3 % 2 == 0 ? 0.15 : -0.15;
  const ConstantsFit found = fit(cluster, runs);
  for (const Constant& c : found.constants.constants)
    EXPECT_NEAR(c.log, 0, 0.25 * prior_deviation(c.kind)) << c.text();
  EXPECT_GT(found.constants.discrepancy, 0.07);
}

TEST(FitConstants, KeepsWhatRunsSayNothingAbout) {
  Rng rng(9);
  Cluster cluster = random_cluster(rng, 9);
  for (auto& run : cluster.parts) run[1] = 0;
  ClusterConstants truth = cluster.names;
  truth.constants[0].log = 0.3;
  const ConstantsFit found = fit(cluster, measured_runs(cluster, truth, 0.01, rng));
  EXPECT_EQ(found.constants.constants[1].log, 0);
  EXPECT_NEAR(std::sqrt(found.constants.covariance[3]),
              found.prior_scale * prior_deviation(ConstantKind::Host), 1e-9);
}

TEST(FitConstants, NeedsARun) {
  Rng rng(1);
  const Cluster cluster = random_cluster(rng, 0);
  EXPECT_EQ(refusal([&] { fit(cluster, {}); }),
            "found no measured run that can be predicted, allowed: at least one");
}

// The first says all of one constant; a second like it would say nothing new.
TEST(MostInformative, ChoosesRunsThatSayDifferentThings) {
  ClusterConstants constants;
  constants.constants = {{ConstantKind::Update, "", 0}, {ConstantKind::Host, "megatron", 0}};
  constants.covariance = {0.09, 0, 0, 0.25};
  constants.discrepancy = 0.01;
  const std::vector<std::vector<double>> slopes{{0, 0.95}, {0, 1}, {1, 0}, {0, 0}};
  EXPECT_THAT(most_informative(constants, slopes, 2), ElementsAre(1, 2));
  EXPECT_EQ(most_informative(constants, slopes, 9).size(), 4U);
}

}  // namespace
}  // namespace pipesim

#include "costmodel/fit.h"

#include <gtest/gtest.h>

#include "sim/base/rng.h"

namespace pipesim {
namespace {

// measured = factor · predicted + overhead, ±4%, and one task in five many times as long.
std::vector<ExecutedTask> noisy_tasks(const std::string& name, double factor, double overhead, Rng& rng) {
  std::vector<ExecutedTask> tasks;
  for (int i = 0; i < 600; ++i) {
    const double predicted = 1e-5 * static_cast<double>(1 + rng.below(200));
    double measured = (factor * predicted + overhead) * (0.96 + 0.08 * rng.uniform());
    if (i % 5 == 0) measured *= 3 + 20 * rng.uniform();
    tasks.push_back({name, predicted, measured});
  }
  return tasks;
}

TEST(FitCorrections, FindsFactorAndOverheadInSpiteOfOutliers) {
  Rng rng(1);
  std::vector<ExecutedTask> tasks = noisy_tasks("forward", 1.3, 4e-5, rng);
  for (const ExecutedTask& t : noisy_tasks("send", 0.8, 1e-4, rng)) tasks.push_back(t);
  const auto fitted = fit_corrections(tasks, 3);
  ASSERT_EQ(fitted.size(), 2U);
  EXPECT_NEAR(fitted.at("forward").factor, 1.3, 0.06);
  EXPECT_NEAR(fitted.at("forward").overhead, 4e-5, 1.5e-5);
  EXPECT_NEAR(fitted.at("send").factor, 0.8, 0.05);
  EXPECT_NEAR(fitted.at("send").overhead, 1e-4, 2e-5);
  EXPECT_EQ(fitted.at("send").tasks, 600);
  EXPECT_EQ(fitted.at("send").runs, 3);
}

TEST(FitCorrections, IsExactWithoutNoise) {
  std::vector<ExecutedTask> tasks;
  for (int i = 1; i <= 20; ++i) tasks.push_back({"update", 1e-3 * i, 2e-3 * i + 5e-4});
  const Correction c = fit_corrections(tasks, 1).at("update");
  EXPECT_NEAR(c.factor, 2, 1e-9);
  EXPECT_NEAR(c.overhead, 5e-4, 1e-9);
  EXPECT_NEAR(c(Seconds(1)).value, 2.0005, 1e-9);
}

// Too few, too alike, or with an overhead that would take time away.
TEST(FitCorrections, FallsBackOnTheMedianRatio) {
  const std::vector<ExecutedTask> few = {{"send", 1, 2}, {"send", 10, 30}, {"send", 20, 40}};
  EXPECT_EQ(fit_corrections(few, 1).at("send"), (Correction{2, 0, 3, 1}));
  std::vector<ExecutedTask> alike, negative;
  for (int i = 0; i < 30; ++i) {
    alike.push_back({"send", 1 + 0.01 * i, 3 * (1 + 0.01 * i)});
    negative.push_back({"send", 1.0 + i, 2.0 * (1 + i) - 0.5});
  }
  EXPECT_NEAR(fit_corrections(alike, 1).at("send").factor, 3, 1e-9);
  EXPECT_EQ(fit_corrections(alike, 1).at("send").overhead, 0);
  EXPECT_EQ(fit_corrections(negative, 1).at("send").overhead, 0);
  EXPECT_GT(fit_corrections(negative, 1).at("send").factor, 1.5);
}

TEST(FitCorrections, SkipsTasksWithoutTime) {
  const std::vector<ExecutedTask> tasks = {{"send", 0, 1}, {"update", 1, 0}};
  EXPECT_TRUE(fit_corrections(tasks, 1).empty());
}

TEST(FitCorrections, NamesClasses) {
  EXPECT_EQ(correction_class(Pass::BackwardWeight), "backward-weight");
  EXPECT_EQ(correction_class(Collective::AllReduce), "all-reduce");
}

}  // namespace
}  // namespace pipesim

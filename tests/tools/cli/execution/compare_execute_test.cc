#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const std::string kComparedModel = "lenet:batch=16";

std::vector<std::string> compared(std::vector<std::string> more) {
  std::vector<std::string> words{"compare", "--execute", "--model",  kComparedModel, "--topology",
                                 "cpu:2",   "--backend", "emulated", "--steps",      "4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CompareExecute, FindsEmulatedDevicesInThePredictedOrder) {
  const Outcome run = pipesim_run(compared({"--random", "3", "--json"}));
  ASSERT_EQ(run.status, 0) << run;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_GE(json.at("plans").size(), 5U);
  for (const auto& plan : json.at("plans")) {
    EXPECT_EQ(plan.at("predicted_s"), plan.at("measured_s").at("median"));
    EXPECT_EQ(plan.at("error"), 0);
    EXPECT_NE(plan.at("name"), "");
  }
  EXPECT_EQ(json.at("top1_regret"), 0);
  EXPECT_NEAR(json.at("spearman").get<double>(), 1, 1e-12);
  EXPECT_EQ(json.at("same_order"), true);
  EXPECT_EQ(json.at("wrong_clear_pairs"), 0);
}

TEST(CompareExecute, TellsWhatTheWrongChoiceCosts) {
  const Outcome run = pipesim_run(compared({"--slow", "cpu1=4", "--json"}));
  ASSERT_EQ(run.status, 0) << run;
  const auto json = nlohmann::json::parse(run.out);
  double predicted = 1e9, chosen = 0, best = 1e9;
  for (const auto& plan : json.at("plans")) {
    const double measured = plan.at("measured_s").at("median").get<double>();
    best = std::min(best, measured);
    if (plan.at("predicted_s") >= predicted) continue;
    predicted = plan.at("predicted_s").get<double>(), chosen = measured;
  }
  EXPECT_GT(json.at("top1_regret").get<double>(), 0.5);
  EXPECT_NEAR(json.at("top1_regret").get<double>(), chosen / best - 1, 1e-9);
  EXPECT_EQ(json.at("same_order"), false);
}

TEST(CompareExecute, ShowsPredictedAndMeasuredTimesOfEachPlan) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db"), plan = folder.path("plan.json");
  ASSERT_EQ(pipesim_run({"calibrate", "--model", kComparedModel, "--topology", "cpu:2", "--backend",
                         "emulated", "--steps", "2", "--random", "0", "-o", file})
                .status,
            0);
  ASSERT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", kComparedModel, "--topology", "cpu:2",
                         "--proposals", "20", "-o", plan})
                .status,
            0);
  const Outcome run = pipesim_run(compared({"--calibration", file, "--plan", plan}));
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr("lenet:batch=16 on cpu (2 devices), batch 16\n\n  plan "));
  EXPECT_THAT(run.out, HasSubstr("\n  data-parallel"));
  EXPECT_THAT(run.out, HasSubstr(plan));
  EXPECT_THAT(run.out, HasSubstr("  predicted order       is the measured order\n"));
  EXPECT_THAT(run.out, HasSubstr("  rank correlation      1.000 (Spearman)\n"));
}

TEST(CompareExecute, SavesThePlansThatItRan) {
  const TemporaryFolder folder;
  const Outcome run =
      pipesim_run(compared({"--random", "2", "--save-plans", folder.path("plans"), "--json"}));
  ASSERT_EQ(run.status, 0) << run;
  const auto compared = nlohmann::json::parse(run.out);
  const std::string saved = folder.path("plans") + "/random-2.json";
  const Outcome simulated = pipesim_run({"simulate", "--plan", saved, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated;
  const auto plan =
      std::ranges::find(compared.at("plans"), "random 2", [](const auto& p) { return p.at("name"); });
  ASSERT_NE(plan, compared.at("plans").end());
  EXPECT_EQ(nlohmann::json::parse(simulated.out).at("iteration_time_s"), plan->at("predicted_s"));
}

TEST(CompareExecute, SavesNothingWhereAFileIsInTheWay) {
  const TemporaryFolder folder;
  static_cast<void>(folder.file("plans", "mine"));
  const Outcome run = pipesim_run(compared({"--save-plans", folder.path("plans")}));
  EXPECT_EQ(run.status, 1) << run;
  EXPECT_THAT(run.err, HasSubstr("plans: cannot be made a folder: "));
}

TEST(CompareExecute, IsAskedFor) {
  const Outcome run =
      pipesim_run({"compare", "--model", kComparedModel, "--topology", "cpu:2", "--random", "3"});
  EXPECT_EQ(run, (Outcome{2, "", "pipesim: compare: --random needs --execute\n"}));
}

TEST(CompareExecute, TakesRecordedStepsOfGpus) {
  const std::vector<std::string> words{"compare",    "--execute", "--model",   kComparedModel,
                                       "--topology", "cpu:2",     "--backend", "cuda",
                                       "--steps",    "2",         "--recorded"};
  const Outcome run = pipesim_run(words);
  if (run.status == 0) GTEST_SKIP() << "this machine has GPUs";
  EXPECT_NE(run.status, 2) << run;
  EXPECT_THAT(run.err,
              testing::AnyOf(HasSubstr("no GPU to run on: "), HasSubstr("libpipesim_cuda.so is not in "),
                             HasSubstr(" and this machine has ")));
}

TEST(CompareExecute, RefusesPlansOfOtherModels) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  ASSERT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", "alexnet:batch=2", "--topology", "cpu:2",
                         "--proposals", "20", "-o", plan})
                .status,
            0);
  const Outcome run = pipesim_run(compared({"--plan", plan}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("plan.json: "));
}

TEST(ExecuteWithACalibration, GivesAnIntervalOfIterations) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db");
  ASSERT_EQ(pipesim_run({"calibrate", "--model", kComparedModel, "--topology", "cpu:2", "--backend",
                         "emulated", "--slow", "cpu1=1.5", "--steps", "2", "--random", "0", "-o", file})
                .status,
            0);
  std::vector<std::string> words{
      "execute",   "--model",  kComparedModel, "--topology", "cpu:2",         "--baseline", "data-parallel",
      "--backend", "emulated", "--steps",      "2",          "--calibration", file};
  const Outcome text = pipesim_run(words);
  ASSERT_EQ(text.status, 0) << text;
  EXPECT_THAT(text.out, HasSubstr(": 90 % of 200 simulated iterations)\n"));
  words.emplace_back("--json");
  const auto json = nlohmann::json::parse(pipesim_run(words).out);
  const auto& interval = json.at("predicted_interval_s");
  EXPECT_LT(interval.at("low"), interval.at("high"));
  EXPECT_LE(interval.at("low"), interval.at("median"));
  EXPECT_LE(json.at("measured_interval_s").at("low"), json.at("measured_interval_s").at("high"));
}

}  // namespace
}  // namespace pipesim

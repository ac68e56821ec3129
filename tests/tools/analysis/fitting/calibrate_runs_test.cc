#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/constants/cluster_constants.h"
#include "sim/base/files.h"
#include "sim/base/rng.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/accuracy/predict_run.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kHead = "name,model,devices,recipe,batch,time,runtime,group\n";

struct FittedSetting {
  int hidden;
  const char* recipe;
  int batch;
};

constexpr FittedSetting kSettings[] = {
    {512, "tp1,dp8,mbs1", 16},  {512, "tp1,dp8,mbs8", 64},    {512, "tp4,dp2,mbs1", 8},
    {512, "tp4,dp2,mbs8", 32},  {2048, "tp1,dp8,mbs1", 16},   {2048, "tp1,dp8,mbs4", 64},
    {2048, "tp8,mbs1", 8},      {2048, "tp8,mbs8", 16},       {4096, "tp2,dp4,mbs1", 8},
    {4096, "tp2,dp4,mbs4", 32}, {4096, "tp8,mbs4", 8},        {1024, "tp2,pp2,dp2,mbs1", 16},
    {1024, "tp1,dp8,mbs4", 32}, {1024, "tp1,dp8,mbs16", 128}, {1024, "tp8,mbs2", 4}};

ExpressedRun run_of(const FittedSetting& s) {
  ExpressedRun run;
  run.model = fmt::format(
      "gpt:layers=2,hidden={},heads=16,vocab=8192,sequence=512,positions=512,dtype=bfloat16,dropout=0",
      s.hidden);
  run.topology = "dgx-a100";
  run.recipe = s.recipe;
  run.batch = s.batch;
  return run;
}

std::string row_of(const ExpressedRun& run, const std::string& time) {
  return fmt::format("run,\"{}\",{},\"{}\",{},{},megatron,\n", run.model, run.topology, run.recipe, run.batch,
                     time);
}

// What a cluster measures whose host is slower and whose memory is slower than ours says, within 1 %.
std::string table_of_a_truth() {
  Calibration truth;
  truth.constants = ClusterConstants{
      "A100-80GB",
      {{ConstantKind::Memory, "", std::log(0.85)}, {ConstantKind::Host, "megatron", std::log(1.4)}},
      {0, 0, 0, 0},
      0,
      {}};
  std::vector<ExpressedRun> runs;
  for (const FittedSetting& s : kSettings) runs.push_back(run_of(s));
  std::string table = kHead;
  Rng rng(2);
  const std::vector<PredictedRun> measured = predict_times(runs, &truth);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(measured[i].error, "");
    table +=
        row_of(runs[i], fmt::format("{} us", 1e6 * measured[i].time.value * (0.99 + 0.02 * rng.uniform())));
  }
  return table;
}

class CalibrateRuns : public testing::Test {
 protected:
  Outcome calibrate(const std::string& table, const std::vector<std::string>& more = {}) {
    (void)folder_.file("runs.csv", table);
    std::vector<std::string> words{"calibrate", "--runs", folder_.path("runs.csv"), "-o", constants()};
    words.insert(words.end(), more.begin(), more.end());
    return pipesim_run(words);
  }
  [[nodiscard]] std::string constants() const { return folder_.path("cluster.json"); }
  [[nodiscard]] bool wrote() const { return std::filesystem::exists(constants()); }
  // One line, and nothing is written.
  void expect_refused(const std::string& table, const std::string& why,
                      const std::vector<std::string>& more = {}) {
    const Outcome outcome = calibrate(table, more);
    EXPECT_NE(outcome.status, 0) << table;
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_FALSE(wrote());
  }

  TemporaryFolder folder_;
};

SLOW_TEST_F(CalibrateRuns, RecoversATruthWithinItsIntervals) {
  const Outcome outcome = calibrate(table_of_a_truth(), {"--suggest", "2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json found = Json::parse(outcome.out);
  EXPECT_EQ(found["device"], "A100-80GB");
  std::map<std::string, Json> by_name;
  for (const Json& constant : found["constants"]) by_name[constant["constant"]] = constant;
  const auto holds = [&](const std::string& name, double truth) {
    const Json& interval = by_name.at(name)["interval"];
    return interval[0].get<double>() <= truth && truth <= interval[1].get<double>();
  };
  EXPECT_TRUE(holds("memory", 0.85)) << by_name["memory"];
  EXPECT_TRUE(holds("host megatron", 1.4)) << by_name["host megatron"];
  EXPECT_TRUE(holds("products", 1)) << by_name["products"];
  EXPECT_NEAR(by_name["host megatron"]["factor"].get<double>(), 1.4, 0.1);
  EXPECT_FALSE(by_name.contains("network links")) << "no run leaves a node";
  EXPECT_GT(found["fitted"]["mean_error_before"].get<double>(), 0.1);
  EXPECT_LT(found["fitted"]["mean_error_after"].get<double>(), 0.02);
  EXPECT_LT(found["fitted"]["mean_error_left_out"].get<double>(), 0.03);
  ASSERT_EQ(found["next"].size(), 2U);
  for (const Json& next : found["next"]) {
    for (const FittedSetting& s : kSettings)
      EXPECT_FALSE(next["model"] == run_of(s).model && next["recipe"] == s.recipe) << next;
  }
}

// A row that can't be predicted is dropped.
SLOW_TEST_F(CalibrateRuns, JudgesByTheRunsThatAreLeft) {
  ExpressedRun wrong = run_of(kSettings[0]);
  wrong.recipe = "tp1,nonsense";
  const Outcome outcome =
      calibrate(table_of_a_truth() + row_of(wrong, "20 ms"), {"--suggest", "2", "--most-runs", "9"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("fitted to 9 of 16 runs"), HasSubstr("other runs of the table"),
                                 HasSubstr("run next")));
}

SLOW_TEST_F(CalibrateRuns, MakesPredictionsWithAnInterval) {
  ASSERT_EQ(calibrate(table_of_a_truth(), {"--suggest", "0"}).status, 0);
  const ExpressedRun run = run_of(kSettings[0]);
  const std::vector<std::string> words{"simulate",
                                       "--model",
                                       run.model,
                                       "--topology",
                                       run.topology,
                                       "--recipe",
                                       run.recipe,
                                       "--runtime",
                                       "megatron",
                                       "--batch",
                                       std::to_string(run.batch),
                                       "--json"};
  const Json plain = Json::parse(pipesim_run(words).out);
  EXPECT_FALSE(plain.contains("interval_s"));
  std::vector<std::string> fitted = words;
  fitted.insert(fitted.end(), {"--calibration", constants()});
  const Outcome outcome = pipesim_run(fitted);
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json json = Json::parse(outcome.out);
  const double time = json["iteration_time_s"], low = json["interval_s"][0], high = json["interval_s"][1];
  EXPECT_GT(time, 1.1 * plain["iteration_time_s"].get<double>());
  EXPECT_LT(low, time);
  EXPECT_GT(high, time);
  EXPECT_LT(high, 1.2 * time);
  EXPECT_FALSE(json.contains("calibration")) << "no duration was measured";
  fitted.pop_back();
  fitted.push_back(constants() + "," + constants());
  EXPECT_THAT(pipesim_run(fitted).err, HasSubstr("a second file of constants"));
  EXPECT_THAT(pipesim_run({"simulate", "--model", "lenet", "--topology", "dgx-h100", "--baseline",
                           "data-parallel", "--calibration", constants()})
                  .err,
              HasSubstr(constants() + ": the constants are of A100-80GB, and topology"));
}

SLOW_TEST_F(CalibrateRuns, PredictionsOfAccuracyHaveIntervalsThatHold) {
  const std::string table = table_of_a_truth();
  ASSERT_EQ(calibrate(table, {"--suggest", "0", "--most-runs", "10"}).status, 0);
  const Outcome outcome =
      pipesim_run({"accuracy", "--data", folder_.path("runs.csv"), "--calibration", constants(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json intervals = Json::parse(outcome.out)["tables"][0]["intervals"];
  EXPECT_EQ(intervals["runs"], 15);
  EXPECT_GE(intervals["held"], 13);
  EXPECT_LT(intervals["mean_half_width"], 0.1);
}

// Rows without a time are what might be run.
SLOW_TEST_F(CalibrateRuns, SuggestsRowsThatHaveNoTime) {
  const std::string wanted =
      row_of(run_of({2048, "tp2,dp4,mbs2", 16}), "") + row_of(run_of({2048, "tp2,dp4,mbs3", 16}), "");
  const Outcome outcome = calibrate(table_of_a_truth() + wanted, {"--suggest", "5"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("tp2,dp4,mbs2")) << "the other one can't be run: 3 does not divide 4";
  EXPECT_THAT(outcome.out, Not(HasSubstr("mbs3")));
}

TEST_F(CalibrateRuns, SaysInOneLineWhatIsWrongAndWritesNothing) {
  const std::string row = row_of(run_of(kSettings[0]), "20 ms");
  expect_refused("model,recipe\n", "runs.csv");
  expect_refused(std::string(kHead) + row + row,
                 "found 2 runs that have a time and can be predicted, allowed: 3");
  expect_refused(std::string(kHead) + row + row + row_of(run_of(kSettings[1]), "-3 ms"),
                 "runs.csv:4: column \"time\"");
  ExpressedRun other = run_of(kSettings[0]);
  other.topology = "dgx-h100";
  expect_refused(std::string(kHead) + row + row + row_of(other, "20 ms"),
                 "allowed: runs on one kind of device");
  expect_refused(std::string(kHead) + row, "--runs and --model exclude each other", {"--model", "lenet"});
  expect_refused(std::string(kHead) + row, "--most-runs", {"--most-runs", "1"});
}

}  // namespace
}  // namespace pipesim

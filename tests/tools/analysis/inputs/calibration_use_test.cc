#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "costmodel/calibration_store.h"
#include "models/zoo/zoo.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/render/inputs/calibration_use_text.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

constexpr const char* kCalibratedModel = "mlp:batch=64,layers=2,hidden=256";
constexpr const char* kCalibratedTopology = "levels:2@10GB/s";

// All passes of all operators on one device take a millisecond each.
std::string calibration_of_everything(const TemporaryFolder& folder, const HostDescription& host) {
  const OperatorGraph graph = make_zoo_model(kCalibratedModel);
  const Topology topology = make_topology(kCalibratedTopology);
  CalibrationStore store = CalibrationStore::create(folder.path("cpu.db"), {host, date_now(), 0});
  std::vector<Measurement> batch;
  for (const Operator& op : graph.operators()) {
    for (const Pass pass : {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight}) {
      const auto ranges = whole_ranges(op);
      const ShardKernel kernel = shard_kernel(graph, op, pass, ranges);
      if (!kernel.runs) continue;
      batch.push_back(
          {operator_key(graph, op, pass, ranges, topology.kind(DeviceId(0)).name), kernel.work, {1e-3}, 0});
    }
  }
  store.add(batch);
  return folder.path("cpu.db");
}

std::vector<std::string> simulate_one(const std::string& file, const std::string& baseline) {
  return {"simulate",   "--model", kCalibratedModel, "--topology", kCalibratedTopology,
          "--baseline", baseline,  "--calibration",  file,         "--json"};
}

TEST(CalibrationOption, TakesMeasuredDurationsFirst) {
  const TemporaryFolder folder;
  const std::string file = calibration_of_everything(folder, this_host());
  const Outcome run = pipesim_run(simulate_one(file, "single-device"));
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_EQ(run.err, "");
  const auto json = nlohmann::json::parse(run.out);
  const auto& use = json.at("calibration");
  // Three linears with three passes each, the first without a gradient of its input, and a loss with two.
  EXPECT_EQ(use.at("measured").at("tasks"), 10);
  EXPECT_EQ(use.at("analytic").at("tasks"), 3) << "the updates";
  EXPECT_GT(json.at("iteration_time_s").get<double>(), 10e-3);
  EXPECT_THAT(use.at("guesses").at(0).at("key").get<std::string>(), HasSubstr("momentum update of "));
}

TEST(CalibrationOption, ListsWhatHadToBeGuessed) {
  const TemporaryFolder folder;
  const std::string file = calibration_of_everything(folder, this_host());
  const auto json = nlohmann::json::parse(pipesim_run(simulate_one(file, "data-parallel")).out);
  const auto& use = json.at("calibration");
  EXPECT_EQ(use.at("measured").at("tasks"), 0);
  EXPECT_GT(use.at("extrapolated").at("tasks").get<int>() + use.at("interpolated").at("tasks").get<int>(), 0);
  double share = 0;
  for (const auto& guess : use.at("guesses")) share += guess.at("share").get<double>();
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST(CalibrationOption, WarnsOfAnotherHost) {
  const TemporaryFolder folder;
  HostDescription host = this_host();
  host.processor = "Abacus";
  const std::string file = calibration_of_everything(folder, host);
  const Outcome run = pipesim_run(simulate_one(file, "single-device"));
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "pipesim: warning: " + file + ": processor: measured on \"Abacus\", here \"" +
                         this_host().processor + "\"\n");
}

TEST(CalibrationOption, GoesWithSearchAndCompare) {
  const TemporaryFolder folder;
  const std::string file = calibration_of_everything(folder, this_host());
  const Outcome search =
      pipesim_run({"search", "--algorithm", "mcmc", "--model", kCalibratedModel, "--topology",
                   kCalibratedTopology, "--proposals", "50", "--calibration", file});
  EXPECT_EQ(search.status, 0) << search;
  EXPECT_THAT(search.out, HasSubstr("  durations      "));
  EXPECT_THAT(search.out, HasSubstr(" tasks measured ("));
  EXPECT_THAT(search.out, testing::Not(HasSubstr("lower bound")));
  const Outcome compare = pipesim_run(
      {"compare", "--model", kCalibratedModel, "--topology", kCalibratedTopology, "--calibration", file});
  EXPECT_EQ(compare.status, 0) << compare;
  EXPECT_THAT(compare.out, HasSubstr("of the fastest baseline:\n  durations      "));
}

TEST(CalibrationOption, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const Outcome run = pipesim_run(simulate_one(folder.path("no.db"), "single-device"));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("no.db: can't be read: No such file or directory"));
}

TEST(CalibrationUse, NamesTheLargestGuess) {
  CalibrationUse use;
  use.tasks = {8, 1, 0, 1};
  use.share = {0.5, 0.125, 0, 0.375};
  EXPECT_EQ(to_text(CalibrationUse{{8, 0, 0, 0}, {1, 0, 0, 0}, {}}),
            "8 of 8 tasks measured (100.0 % of their time)");
  use.guesses = {{"a key", DurationSource::Analytic, 1, 0.375}};
  EXPECT_EQ(
      to_text(use),
      "8 of 10 tasks measured (50.0 % of their time), 1 interpolated (12.5 %), 1 analytic (37.5 %); largest "
      "guess: a key (37.5 %, analytic)");
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "costmodel/calibration_store.h"
#include "costmodel/host.h"
#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const std::string kSampledModel = "mlp:batch=16,layers=2,hidden=32,features=16,classes=8";

std::vector<std::string> calibrate_words(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"calibrate", "--model",  kSampledModel, "--topology", "cpu:2",
                                 "--backend", "emulated", "--steps",     "4",          "--random",
                                 "3",         "--output", file};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

nlohmann::json simulated_with(const std::string& baseline, const std::string& calibration) {
  std::vector<std::string> words{"simulate", "--model",    kSampledModel, "--topology",
                                 "cpu:2",    "--baseline", baseline,      "--json"};
  if (!calibration.empty()) words.insert(words.end(), {"--calibration", calibration});
  return nlohmann::json::parse(pipesim_run(words).out);
}

TEST(Calibrate, MeasuresEveryDurationOfThePlansThatItRuns) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db");
  const Outcome run = pipesim_run(calibrate_words(file));
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr("cpu.db: "));
  EXPECT_THAT(run.out, HasSubstr(" samples, 0 interrupted and dropped\n"));
  EXPECT_EQ(run.err, "");
  for (const char* baseline : {"single-device", "data-parallel", "model-parallel", "expert"}) {
    const auto with = simulated_with(baseline, file), without = simulated_with(baseline, "");
    EXPECT_EQ(with.at("calibration").at("guesses").size(), 0U) << baseline;
    // Emulated devices take what is predicted without a calibration.
    EXPECT_NEAR(with.at("iteration_time_s").get<double>(), without.at("iteration_time_s").get<double>(),
                50e-9);
  }
}

TEST(Calibrate, RunsOnePlanOnceMore) {
  const TemporaryFolder folder;
  const Outcome run = pipesim_run(calibrate_words(folder.path("cpu.db")));
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr("\n  random 3 run once more: "));
  EXPECT_THAT(run.out, HasSubstr("0.0 %)\n"));
}

TEST(Calibrate, TellsTheSameAsADocument) {
  const TemporaryFolder folder;
  std::vector<std::string> words = calibrate_words(folder.path("cpu.db"));
  words.emplace_back("--json");
  const Outcome run = pipesim_run(words);
  ASSERT_EQ(run.status, 0) << run;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json.at("file"), folder.path("cpu.db"));
  EXPECT_EQ(json.at("durations"), json.at("durations_in_all"));
  EXPECT_GE(json.at("samples"), json.at("durations"));
  EXPECT_EQ(json.at("run_once_more").at("plan"), "random 3");
  EXPECT_NEAR(json.at("run_once_more").at("error").get<double>(), 0, 1e-3);
}

TEST(Calibrate, WritesNothingThatThePlanRunOnceMoreContradicts) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db");
  // Most samples are of devices that take three times as long as they do later.
  ASSERT_EQ(pipesim_run(calibrate_words(file, {"--slow", "cpu0=3,cpu1=3", "--tolerance", "0.1"})).status, 0);
  const std::string before = read_file(file);
  std::vector<std::string> later = calibrate_words(file);
  *std::next(std::ranges::find(later, "--steps")) = "1";
  const Outcome refused = pipesim_run(later);
  EXPECT_EQ(refused.status, 1) << refused;
  EXPECT_THAT(refused.err, HasSubstr("cpu.db: not written: random 3 run once more: "));
  EXPECT_THAT(refused.err, HasSubstr("more than 25 % off"));
  EXPECT_EQ(read_file(file), before);
  later.insert(later.end(), {"--tolerance", "500"});
  EXPECT_EQ(pipesim_run(later).status, 0);
  EXPECT_NE(read_file(file), before);
}

TEST(Calibrate, NotesTheHostAndTheDate) {
  const TemporaryFolder folder;
  ASSERT_EQ(pipesim_run(calibrate_words(folder.path("cpu.db"))).status, 0);
  const Calibration calibration = load_calibration(folder.path("cpu.db"));
  ASSERT_EQ(calibration.runs.size(), 1U);
  EXPECT_EQ(calibration.runs[0].host.processor, this_host().processor);
  EXPECT_EQ(calibration.runs[0].date.size(), date_now().size());
}

TEST(Calibrate, KeepsEmulatedLinksApartFromOthers) {
  const TemporaryFolder folder;
  const std::string file = folder.path("gpu.db");
  CalibrationRun run{this_host(), date_now(), 0};
  run.host.versions = {{"GPU", "NVIDIA H200"}, {"links", "emulated as those of cpu:2"}};
  CalibrationStore::create(file, run).save();
  std::vector<std::string> words{"calibrate", "--model", kSampledModel, "--topology", "cpu:2",
                                 "--backend", "cuda",    "--output",    file,         "--virtual-devices"};
  EXPECT_EQ(pipesim_run(words).err,
            "pipesim: " + file +
                ": the links between GPUs were emulated as those of cpu:2 when it was "
                "measured, and now are not emulated; take another --output\n");
  words[4] = "cpu:4";
  words.emplace_back("--emulate-links");
  EXPECT_THAT(pipesim_run(words).err, HasSubstr("and now are emulated as those of cpu:4; take another"));
}

TEST(Calibrate, AddsToAFileThatExists) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db");
  ASSERT_EQ(pipesim_run(calibrate_words(file)).status, 0);
  const Calibration first = load_calibration(file);
  const Outcome run = pipesim_run(calibrate_words(file, {"--no-baselines", "--optimizer", "adam"}));
  ASSERT_EQ(run.status, 0) << run;
  const Calibration both = load_calibration(file);
  EXPECT_EQ(both.runs.size(), 2U);
  EXPECT_GT(both.keys.size(), first.keys.size());  // updates of another optimizer
  for (const auto& [key, measured] : first.keys)
    EXPECT_EQ(both.keys.at(key).samples.front(), measured.samples.front()) << key.str();
}

TEST(Calibrate, FitsWhatIsEstimatedFromOtherSizes) {
  const TemporaryFolder folder;
  const std::string file = folder.path("cpu.db");
  const Outcome run =
      pipesim_run({"calibrate", "--model", "lenet:batch=16", "--topology", "cpu:4", "--backend", "emulated",
                   "--steps", "2", "--random", "2", "--fit", "--output", file});
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr(" times as estimated + "));
  for (const auto& [name, correction] : load_calibration(file).corrections) {
    EXPECT_NEAR(correction.factor, 1, 0.02) << name;  // emulated: as the analytic model says
    EXPECT_GT(correction.tasks, 0);
  }
}

TEST(Calibrate, RunsPlansThatAreGiven) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), file = folder.path("cpu.db");
  ASSERT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", kSampledModel, "--topology", "cpu:2",
                         "--proposals", "20", "-o", plan})
                .status,
            0);
  const Outcome run =
      pipesim_run({"calibrate", "--model", kSampledModel, "--topology", "cpu:2", "--backend", "emulated",
                   "--random", "0", "--no-baselines", "--plan", plan, "--plan", plan, "-o", file});
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr(" durations measured from 2 plans, "));
}

TEST(Calibrate, RunsOnTheCpu) {
  const TemporaryFolder folder;
  const Outcome run = pipesim_run({"calibrate", "--model", kSampledModel, "--topology", "cpu:1", "--steps",
                                   "4", "--random", "0", "-o", folder.path("cpu.db")});
  ASSERT_EQ(run.status, 0) << run;
  for (const auto& [key, measured] : load_calibration(folder.path("cpu.db")).keys)
    EXPECT_GT(measured.durations().quantile(0), Seconds(0)) << key.str();
}

TEST(Calibrate, RefusesWrongCommandLines) {
  const Outcome no_file = pipesim_run({"calibrate", "--model", kSampledModel, "--topology", "cpu:2"});
  EXPECT_EQ(
      no_file,
      (Outcome{2, "", "pipesim: calibrate: --output FILE is missing; see \"pipesim help calibrate\"\n"}));
  const Outcome no_model = pipesim_run({"calibrate", "--topology", "cpu:2", "-o", "x.db"});
  EXPECT_EQ(no_model,
            (Outcome{2, "", "pipesim: calibrate: --model is missing; see \"pipesim help calibrate\"\n"}));
  const Outcome slow = pipesim_run(
      {"calibrate", "--model", kSampledModel, "--topology", "cpu:2", "-o", "x.db", "--slow", "cpu1=2"});
  EXPECT_EQ(slow, (Outcome{2, "", "pipesim: --slow needs --backend emulated\n"}));
}

TEST(Calibrate, RefusesFilesThatItCanNotUse) {
  const TemporaryFolder folder;
  const Outcome nowhere = pipesim_run(calibrate_words(folder.path("no/cpu.db")));
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("no/cpu.db: "));
  const std::string text = folder.file("notes.db", "not a database, but long enough to look like something");
  const Outcome other = pipesim_run(calibrate_words(text));
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("notes.db: "));
  EXPECT_EQ(read_file(text), "not a database, but long enough to look like something");
  const Outcome nothing =
      pipesim_run(calibrate_words(folder.path("cpu.db"), {"--no-baselines", "--random=0"}));
  EXPECT_EQ(nothing.status, 2);  // --random is given twice
}

}  // namespace
}  // namespace pipesim

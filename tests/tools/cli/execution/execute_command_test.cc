#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSmallModel = "mlp:batch=16,layers=2,hidden=32,features=16,classes=8";

Outcome execute(std::vector<std::string> more, const std::string& model = kSmallModel,
                const std::string& topology = "cpu:2") {
  std::vector<std::string> words{"execute",  "--model", model,           "--topology",     topology,
                                 "--warmup", "1",       "--no-realtime", "--oversubscribe"};
  if (std::find(more.begin(), more.end(), "--steps") == more.end())
    words.insert(words.end(), {"--steps", "3"});
  words.insert(words.end(), more.begin(), more.end());
  return pipesim_run(words);
}

nlohmann::json executed(std::vector<std::string> more, const std::string& model = kSmallModel,
                        const std::string& topology = "cpu:2") {
  more.push_back("--json");
  const Outcome run = execute(std::move(more), model, topology);
  EXPECT_EQ(run.status, 0) << run;
  return nlohmann::json::parse(run.out);
}

TEST(Execute, ComputesWhatTheUnsplitModelComputes) {
  for (const char* baseline : {"single-device", "data-parallel", "expert"}) {
    const auto json = executed({"--baseline", baseline, "--check"});
    ASSERT_EQ(json.at("check").size(), 3U) << baseline;
    for (const auto& step : json.at("check")) EXPECT_EQ(step.at("equal"), true) << baseline << step;
    EXPECT_EQ(json.at("loss").size(), 4U) << "warm-up and measured steps";
    EXPECT_GT(json.at("measured_s").at("median").get<double>(), 0);
    EXPECT_EQ(json.at("iterations").at("measured"), 3);
  }
}

TEST(Execute, ComparesAsManySteps) {
  EXPECT_EQ(executed({"--baseline", "expert", "--check", "--check-steps", "7"}).at("check").size(), 7U);
  EXPECT_EQ(execute({"--baseline", "expert", "--check-steps", "7"}).status, 2);
}

TEST(Execute, HoldsTheMemoryThatIsPredicted) {
  for (const char* model : {kSmallModel, "lenet:batch=8"}) {
    const auto json = executed({"--baseline", "data-parallel"}, model);
    for (const auto& device : json.at("memory")) {
      const auto predicted = device.at("predicted_bytes").get<double>();
      EXPECT_NEAR(device.at("measured_bytes").get<double>(), predicted, predicted / 100) << model << device;
    }
  }
}

// Training that has lost its numbers can't be compared, and that is no equality.
TEST(Execute, ComparesNoNumbersThatAreLost) {
  const Outcome run = execute({"--baseline", "data-parallel", "--check", "--steps", "1", "--check-steps", "6",
                               "--learning-rate", "100"});
  EXPECT_EQ(run.status, 3) << run;
  EXPECT_THAT(run.err, HasSubstr("nothing can be compared with the unsplit model"));
}

TEST(Execute, HoldsEverythingInAnArena) {
  const auto json = executed({"--baseline", "data-parallel", "--arena", "--check"});
  for (const auto& step : json.at("check")) EXPECT_EQ(step.at("equal"), true) << step;
  ASSERT_EQ(json.at("memory").size(), 2U);
  for (const auto& device : json.at("memory"))
    EXPECT_GE(device.at("arena_bytes"), device.at("measured_bytes"));
  EXPECT_FALSE(executed({"--baseline", "data-parallel"}).at("memory")[0].contains("arena_bytes"));
}

TEST(Execute, RunsAPlanThatSearchHasWritten) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), trace = folder.path("trace.json");
  ASSERT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", kSmallModel, "--topology", "cpu:2",
                         "--proposals", "50", "-o", plan})
                .status,
            0);
  const Outcome run =
      pipesim_run({"execute", "--plan", plan, "--steps", "2", "--oversubscribe", "--trace", trace});
  EXPECT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr("predicted iteration"));
  EXPECT_THAT(run.out, HasSubstr("measured iteration"));
  EXPECT_THAT(run.out, HasSubstr("peak memory"));
  EXPECT_THAT(run.out, HasSubstr("in the last\n"));
  std::set<std::string> tracks;
  const auto events = nlohmann::json::parse(read_file(trace)).at("traceEvents");
  for (const auto& event : events) {
    if (event.at("name") == "process_name") tracks.insert(event.at("args").at("name").get<std::string>());
  }
  EXPECT_THAT(tracks, testing::Contains(HasSubstr("predicted")));
  EXPECT_THAT(tracks, testing::Contains(HasSubstr("measured")));
  const std::string page = folder.path("page.html");
  EXPECT_EQ(pipesim_run({"report", trace, "-o", page}), (Outcome{0, page + ": a page of 1 part\n", ""}));

  const std::string on_both = folder.path("both.json");
  ASSERT_EQ(pipesim_run({"search", "--model", kSmallModel, "--topology", "cpu:2", "--algorithm",
                         "data-parallel", "-o", on_both})
                .status,
            0);
  const Outcome one = pipesim_run({"execute", "--plan", on_both, "--topology", "cpu:1"});
  EXPECT_EQ(one.status, 1);
  EXPECT_THAT(one.err, HasSubstr("but topology \"cpu:1\" lacks 1: "));
}

TEST(Execute, EmulatesDevicesThatAreNotThere) {
  const auto even =
      executed({"--backend", "emulated", "--baseline", "data-parallel"}, "vgg16:batch=64", "p100-4x4");
  EXPECT_EQ(even.at("devices"), 16);
  EXPECT_EQ(even.at("backend"), "emulated");
  EXPECT_EQ(even.at("iterations").at("interrupted"), 0);
  EXPECT_GE(even.at("measured_s").at("median"), even.at("predicted_s"));
  const auto slow =
      executed({"--backend", "emulated", "--baseline", "data-parallel", "--slow", "node0.gpu1=3"},
               "vgg16:batch=64", "p100-4x4");
  EXPECT_EQ(slow.at("predicted_s"), even.at("predicted_s"));
  EXPECT_GT(slow.at("measured_s").at("median").get<double>(), 1.5 * slow.at("predicted_s").get<double>());
}

TEST(Execute, TrainsOnDataFromFiles) {
  const TemporaryFolder folder;
  const std::string labels = folder.file("labels", std::string(16, '\3'));
  const auto json = executed({"--baseline", "data-parallel", "--data", "labels=" + labels + ":uint8",
                              "--steps", "12", "--learning-rate", "0.5"});
  EXPECT_LT(json.at("loss").back().get<double>(), 0.2) << "all labels are alike";
  EXPECT_EQ(execute({"--baseline", "data-parallel", "--data", "labels=" + labels + ":uint8@5"}).status, 0);
  EXPECT_THAT(execute({"--baseline", "data-parallel", "--data", "lables=" + labels}).err,
              HasSubstr("\"lables\" is no data tensor of the model; it has "));
}

TEST(Execute, NamesTheFirstTensorThatBecameNaN) {
  const Outcome run = execute({"--baseline", "data-parallel", "--learning-rate", "1000000", "--steps", "50"});
  EXPECT_EQ(run.status, 3) << run;
  EXPECT_THAT(run.err, HasSubstr("the loss became NaN in step "));
  EXPECT_THAT(run.err, HasSubstr("the first tensor that became NaN is \""));
}

TEST(Execute, SaysWhatGpusNeed) {
  const Outcome run = execute({"--baseline", "data-parallel", "--backend", "cuda"});
  const Outcome parts = execute({"--baseline", "data-parallel", "--backend", "cuda", "--virtual-devices"});
  if (parts.status == 0) GTEST_SKIP() << "this machine has a GPU";
  for (const Outcome& outcome : {run, parts}) {
    EXPECT_EQ(outcome.status, 3) << outcome;  // no library, no driver or no GPU
    EXPECT_THAT(outcome.err,
                testing::AnyOf(HasSubstr("no GPU to run on: "), HasSubstr("libpipesim_cuda.so is not in ")));
  }
}

TEST(Execute, RefusesOptionsOfGpusElsewhere) {
  for (const char* option : {"--virtual-devices", "--tf32", "--recorded"}) {
    const Outcome run = execute({"--baseline", "data-parallel", option});
    EXPECT_EQ(run.status, 2) << option;
    EXPECT_EQ(run.err.substr(0, run.err.find('\n')),
              "pipesim: " + std::string(option) + " needs --backend cuda");
  }
  for (const std::vector<std::string>& without :
       std::vector<std::vector<std::string>>{{}, {"--backend", "cuda"}, {"--backend", "emulated"}}) {
    std::vector<std::string> words{"--baseline", "data-parallel", "--emulate-links"};
    words.insert(words.end(), without.begin(), without.end());
    const Outcome run = execute(words);
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.err.substr(0, run.err.find('\n')),
              "pipesim: --emulate-links needs --backend cuda --virtual-devices");
  }
  EXPECT_THAT(execute({"--baseline", "data-parallel", "--rendezvous", "tcp://a:1"}).err,
              HasSubstr("--rendezvous needs --backend cuda"));
  const Outcome alone =
      execute({"--baseline", "data-parallel", "--backend", "cuda", "--rendezvous", "tcp://a:1"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("--rendezvous: there is only one process"));
}

TEST(Execute, RefusesARendezvousOverFiles) {
  const Outcome run =
      execute({"--baseline", "data-parallel", "--backend", "cuda", "--rendezvous", "file:/shared/ranks"});
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(
      run.err,
      "pipesim: rendezvous \"file:/shared/ranks\": processes no longer meet over files, but at a free port "
      "of rank 0's host; allowed are tcp://HOST:PORT and mpi\n");
}

TEST(Execute, RefusesWhatCannotRun) {
  const auto refused = [](std::vector<std::string> words, int status) {
    words.insert(words.begin(), "execute");
    const Outcome run = pipesim_run(words);
    EXPECT_EQ(run.status, status) << run;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run;
    return run.err;
  };
  const std::vector<std::string> small{"--model", kSmallModel,  "--topology",
                                       "cpu:2",   "--baseline", "data-parallel"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = small;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(refused({"--model", kSmallModel, "--topology", "cpu:512", "--baseline", "single-device",
                       "--steps", "0"},
                      2),
              HasSubstr("--steps"));
  EXPECT_THAT(
      refused({"--model", "mlp:batch=512", "--topology", "cpu:512", "--baseline", "data-parallel"}, 1),
      HasSubstr("the plan uses 512 devices and there "));
  EXPECT_THAT(refused(with({"--slow", "cpu0=2"}), 2), HasSubstr("--slow needs --backend emulated"));
  EXPECT_THAT(refused(with({"--backend", "emulated", "--slow", "cpu0=0"}), 2),
              HasSubstr("allowed: DEVICE=FACTOR"));
  EXPECT_THAT(refused(with({"--backend", "emulated", "--slow", "cpu7=2"}), 1),
              HasSubstr("unknown device \"cpu7\""));
  EXPECT_THAT(refused(with({"--backend", "emulated", "--check"}), 2),
              HasSubstr("emulated devices compute nothing"));
  EXPECT_THAT(refused(with({"--backend", "emulated", "--data", "a=b"}), 2),
              HasSubstr("emulated devices compute nothing"));
  EXPECT_THAT(refused(with({"--backend", "gpu"}), 2), HasSubstr("cpu, cuda, emulated"));
  EXPECT_THAT(refused(with({"--calibration", "/none.db"}), 1), HasSubstr("/none.db: can't be read"));
  EXPECT_THAT(refused(with({"--trace", "/none/t.json"}), 1), HasSubstr("there is no folder /none"));
  EXPECT_THAT(
      refused({"--model", "gpt3-175b:dtype=bfloat16", "--topology", "cpu:1", "--baseline", "single-device"},
              1),
      HasSubstr("and this host has "));
}

}  // namespace
}  // namespace pipesim

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/cores.h"
#include "sim/base/files.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace fs = std::filesystem;
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class SearchCommand : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return file(name);
  }
  // A plan for lenet on four GPUs.
  std::string plan(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> args{"search",     "--algorithm", "mcmc", "--model", "lenet",   "--topology",
                                  "p100-4x4:1", "--proposals", "200",  "-o",      file(name)};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome result = pipesim_run(args);
    EXPECT_EQ(result.status, 0) << result.err;
    return read_file(file(name));
  }
  fs::path folder_ = fs::temp_directory_path() / ("pipesim_search_test_" + std::to_string(::getpid()));
};

// Nobody reads most of what the first operator makes: pieces of it have no partners in an exchange.
TEST_F(SearchCommand, PlansModelsThatReadOnePositionAlone) {
  const std::string model = write("last.json", R"({"pipesim_model": 1, "name": "last", "batch": 8,
    "inputs": [{"name": "x", "shape": [8, 8, 16]}, {"name": "y", "shape": [8, 1], "dtype": "int64"}],
    "operators": [{"name": "in", "kind": "linear", "inputs": ["x"], "out": 16},
                  {"name": "last", "kind": "slice", "inputs": ["in"], "axis": 1, "start": 7, "length": 1},
                  {"name": "out", "kind": "linear", "inputs": ["last"], "out": 5},
                  {"name": "loss", "kind": "cross_entropy", "inputs": ["out", "y"]}]})");
  const Outcome result =
      pipesim_run({"search", "--model", model, "--topology", "p100-4x4:1", "--proposals", "40"});
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(SearchCommand, PlansOperatorsOfUnknownKindsWithMeasuredTimes) {
  const std::string model = write("sort.json", R"({"pipesim_model": 1, "name": "sort", "batch": 8,
    "inputs": [{"name": "x", "shape": [8, 16]}, {"name": "y", "shape": [8], "dtype": "int64"}],
    "operators": [{"name": "in", "kind": "linear", "inputs": ["x"], "out": 16},
                  {"name": "sort", "kind": "opaque", "what": "aten::sort", "inputs": ["in"], "shape": [8, 16],
                   "samples": true, "forward_ms": 2, "backward_ms": 3},
                  {"name": "out", "kind": "linear", "inputs": ["sort"], "out": 5},
                  {"name": "loss", "kind": "cross_entropy", "inputs": ["out", "y"]}]})");
  const Outcome result =
      pipesim_run({"search", "--model", model, "--topology", "p100-4x4:1", "--proposals", "40"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("unknown kinds"));
  const std::vector<std::string> of{"--model", model, "--topology", "p100-4x4:1"};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, of.begin(), of.end());
    return pipesim_run(words);
  };
  EXPECT_THAT(run({"compare"}).out, HasSubstr("\nunknown kinds, with data-parallel: 1 of 4 operators, "));
  const std::vector<std::string> study{"whatif", "--baseline", "data-parallel", "--vary", "nodes=1,2"};
  EXPECT_THAT(run(study).out, HasSubstr("\nunknown kinds, at the first point: 1 of 4 operators, "));
  EXPECT_THAT(run({"whatif", "--baseline", "data-parallel", "--sensitivity"}).out,
              HasSubstr("\nunknown kinds: 1 of 4 operators, "));
}

TEST_F(SearchCommand, JsonHasWhatScriptsNeed) {
  const Outcome result = pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology",
                                      "p100-4x4:1", "--proposals", "200", "--seed", "3", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  for (const char* key :
       {"iteration_time_s", "throughput_samples_per_s", "num_devices", "num_tasks", "peak_memory_bytes",
        "compute_s", "communication_s", "critical_path", "seed", "baselines", "best", "lower_bound_s"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["num_devices"], 4);
  EXPECT_EQ(json["peak_memory_bytes"].size(), 4u);
  EXPECT_EQ(json["baselines"].size(), 4u);
  EXPECT_EQ(json["search"]["proposals"], 200);
  EXPECT_GE(json["iteration_time_s"].get<double>(), json["lower_bound_s"].get<double>());
  for (const Json& baseline : json["baselines"]) {
    EXPECT_LE(json["iteration_time_s"].get<double>(), baseline.value("iteration_time_s", 1e9))
        << baseline["name"];
  }
  const Json& shares = json["critical_path"];
  EXPECT_NEAR(shares["compute"].get<double>() + shares["communication"].get<double>() +
                  shares["waiting"].get<double>(),
              1, 1e-9);
}

TEST_F(SearchCommand, SameSeedSameBytesWhateverTheThreads) {
  const std::string one = plan("one.json", {"--seed", "5", "--threads", "1"});
  EXPECT_EQ(one, plan("two.json", {"--seed", "5", "--threads", "2"}));
  EXPECT_EQ(one, plan("three.json", {"--seed", "5"}));
  EXPECT_EQ(one, plan("four.json", {"--seed", "5", "--threads", "16"}));
}

TEST_F(SearchCommand, TellsItsThreads) {
  const auto threads = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"search",     "--algorithm", "mcmc",        "--model", "lenet",
                                  "--topology", "p100-4x4:1",  "--proposals", "100"};
    args.insert(args.end(), more.begin(), more.end());
    const std::string text = pipesim_run(args).out;
    args.emplace_back("--json");
    const int told = Json::parse(pipesim_run(args).out)["search"]["threads"].get<int>();
    EXPECT_THAT(text, HasSubstr(fmt::format(" s on {} thread{}\n", told, told == 1 ? "" : "s")));
    return told;
  };
  EXPECT_EQ(threads({}), std::min(8, available_cores()));
  EXPECT_EQ(threads({"--chains", "1"}), 1);
  EXPECT_EQ(threads({"--moves", "flexflow"}), 1);
  EXPECT_EQ(threads({"--threads", "3"}), 3);
}

TEST_F(SearchCommand, PlansCanBeSimulatedTracedAndExplained) {
  plan("plan.json");
  const Outcome json = pipesim_run({"simulate", "--plan", file("plan.json"), "--trace", file("trace.json"),
                                    "--dot", file("tasks.dot"), "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["num_devices"], 4);
  EXPECT_TRUE(Json::parse(read_file(file("trace.json"))).contains("traceEvents"));
  EXPECT_THAT(read_file(file("tasks.dot")), StartsWith("digraph tasks {"));
  const Outcome why = pipesim_run({"simulate", "--plan", file("plan.json"), "--explain", "conv2 forward"});
  EXPECT_THAT(why.out, HasSubstr("conv2 forward on gpu"));
  const Outcome text = pipesim_run({"simulate", "--plan", file("plan.json")});
  EXPECT_THAT(text.out, HasSubstr("critical path"));
}

TEST_F(SearchCommand, SimulatingGivesTheTimeThatSearchSaid) {
  const Outcome found = pipesim_run({"search", "--algorithm", "mcmc", "--model", "mlp:batch=64", "--topology",
                                     "pcie-v100-4", "--proposals", "100", "-o", file("plan.json"), "--json"});
  ASSERT_EQ(found.status, 0) << found.err;
  const Outcome simulated = pipesim_run({"simulate", "--plan", file("plan.json"), "--json"});
  EXPECT_EQ(Json::parse(found.out)["iteration_time_s"], Json::parse(simulated.out)["iteration_time_s"]);
}

TEST_F(SearchCommand, CompareShowsEveryBaseline) {
  const Outcome result = pipesim_run({"compare", "--model", "lenet", "--topology", "p100-4x4"});
  EXPECT_EQ(result.status, 0);
  for (const char* name : {"single-device", "data-parallel", "model-parallel", "expert", "lower bound"}) {
    EXPECT_THAT(result.out, HasSubstr(name));
  }
}

TEST_F(SearchCommand, PrintsItsCandidates) {
  const Outcome result =
      pipesim_run({"search", "--model", "lenet", "--topology", "p100-4x4:1", "--candidates"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, StartsWith("7 device lists:\n"));
}

TEST_F(SearchCommand, ExhaustiveIsNeverWorseThanABaseline) {
  const Outcome result =
      pipesim_run({"search", "--model", "mlp:batch=32,hidden=64,layers=1", "--topology", "levels:2@10GB/s",
                   "--algorithm", "exhaustive", "--seconds", "60", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_TRUE(json["proven_optimal"].get<bool>());
  for (const Json& b : json["baselines"]) EXPECT_LE(json["iteration_time_s"], b["iteration_time_s"]);
}

TEST_F(SearchCommand, LogsTheSearchUpToItsEnd) {
  const Outcome result =
      pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4:1",
                   "--proposals", "200", "--search-log", file("log.csv"), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::string log = read_file(file("log.csv"));
  EXPECT_THAT(log, StartsWith("seconds,proposals,best,chain\n"));
  const std::size_t last = log.rfind('\n', log.size() - 2) + 1, proposals = log.find(',', last) + 1;
  EXPECT_EQ(log.substr(proposals, 4), "200,");
  EXPECT_DOUBLE_EQ(std::stod(log.substr(proposals + 4)), Json::parse(result.out)["iteration_time_s"]);
}

TEST_F(SearchCommand, ShowsHowTheBestTimeFell) {
  std::vector<std::string> args{"search",     "--model",         "mlp:batch=512,hidden=2048,layers=3",
                                "--topology", "levels:2@10GB/s", "--algorithm",
                                "exhaustive", "--proposals",     "20000"};
  const Outcome text = pipesim_run(args);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\n\n  best iteration time, by proposals\n"));
  args.insert(args.end(), {"--seconds", "60"});
  EXPECT_THAT(pipesim_run(args).out, HasSubstr("\n\n  best iteration time, by wall time\n"));
  args.emplace_back("--json");
  const Json json = Json::parse(pipesim_run(args).out);
  ASSERT_GE(json["history"].size(), 2u);
  EXPECT_EQ(json["history"].back()["iteration_time_s"], json["iteration_time_s"]);
  EXPECT_EQ(json["history"].back()["chain"], 0);
}

TEST_F(SearchCommand, CheckpointsNeedAFile) {
  const Outcome result = pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology",
                                      "p100-4x4", "--checkpoint-every", "5"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--checkpoint-every needs --checkpoint FILE"));
}

TEST_F(SearchCommand, OnlyChainsHaveCheckpoints) {
  for (const char* option : {"--checkpoint", "--resume"}) {
    const Outcome result = pipesim_run({"search", "--model", "lenet", "--topology", "p100-4x4", "--algorithm",
                                        "exhaustive", option, file("checkpoint")});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(std::string(option) + " needs --algorithm mcmc"));
  }
  EXPECT_FALSE(fs::exists(file("checkpoint")));
}

TEST_F(SearchCommand, AResumedSearchKeepsItsSeedAndChains) {
  const auto search = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"search",     "--algorithm", "mcmc", "--model",     "lenet",
                                  "--topology", "p100-4x4:1",  "-o",   file("p.json")};
    args.insert(args.end(), more.begin(), more.end());
    return pipesim_run(args);
  };
  ASSERT_EQ(search({"--proposals", "200", "--seed", "7", "--checkpoint", file("checkpoint")}).status, 0);
  const std::vector<std::string> resumed{"--proposals", "400", "--resume", file("checkpoint")};
  const auto with = [&](const char* option, const char* value) {
    std::vector<std::string> args = resumed;
    args.insert(args.end(), {option, value});
    return search(args);
  };
  ASSERT_EQ(search(resumed).status, 0);
  const std::string plan = read_file(file("p.json"));
  ASSERT_EQ(search({"--proposals", "400", "--seed", "7"}).status, 0);
  EXPECT_EQ(read_file(file("p.json")), plan);  // the seed, too
  EXPECT_EQ(with("--seed", "7").status, 0);
  EXPECT_EQ(with("--chains", "8").status, 0);
  const Outcome seed = with("--seed", "8"), chains = with("--chains", "3"),
                moves = with("--moves", "flexflow");
  EXPECT_EQ(seed.status, 1);
  EXPECT_THAT(seed.err, HasSubstr("found seed 7, --seed says 8"));
  EXPECT_EQ(chains.status, 1);
  EXPECT_THAT(chains.err, HasSubstr("found chains 8, --chains says 3"));
  EXPECT_EQ(moves.status, 1);
  EXPECT_THAT(moves.err, HasSubstr("/subject/moves: the checkpoint is of another search"));
}

TEST_F(SearchCommand, ALargerBudgetGoesOnAsIfThereHadBeenNoSmallerOne) {
  const auto search = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"search",
                                  "--algorithm",
                                  "mcmc",
                                  "--model",
                                  "rnnlm:batch=32,steps=2,layers=1,hidden=64,vocab=200",
                                  "--topology",
                                  "p100-4x4:1",
                                  "-o",
                                  file("p.json")};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(pipesim_run(args).status, 0);
    return read_file(file("p.json"));
  };
  const std::string whole = search({"--proposals", "3000"});
  for (const char* smaller : {"100", "700", "1234", "2999"}) {
    search({"--proposals", smaller, "--checkpoint", file("checkpoint")});
    EXPECT_EQ(search({"--proposals", "3000", "--resume", file("checkpoint")}), whole) << smaller;
  }
}

// One line on stderr, exit status 1, nothing written.
struct RefusedSearch {
  std::vector<std::string> args;
  std::string message;
};

TEST_F(SearchCommand, BadInputGetsOneLine) {
  const std::string truncated = write("truncated.json", "{\"pipesim_plan\": 1,\n");
  const std::vector<RefusedSearch> refusals{
      {{"search", "--algorithm", "mcmc", "--model", "resnet5", "--topology", "p100-4x4"},
       "did you mean \"resnet50\"?"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x5"},
       "did you mean \"p100-4x4\"?"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet:batch=-1", "--topology", "p100-4x4"}, "batch"},
      {{"search", "--algorithm", "mcmc", "--model", "gpt3-175b", "--topology", "p100-4x4"}, "are missing"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "levels:4@10Gb"}, "10Gb"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4", "-o",
        file("no/such/plan.json")},
       "there is no folder"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4", "-o",
        folder_.string()},
       "is a directory"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4", "--search-log",
        file("no/log.csv")},
       "there is no folder"},
      {{"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4", "--search-log",
        folder_.string()},
       "is a directory"},
      {{"simulate", "--plan", file("missing.json")}, "No such file or directory"},
      {{"simulate", "--plan", folder_.string()}, "is a directory"},
      {{"simulate", "--plan", truncated}, "truncated.json:2:1: not valid JSON"},
  };
  for (const RefusedSearch& r : refusals) {
    const Outcome result = pipesim_run(r.args);
    EXPECT_EQ(result.status, 1) << r.message;
    EXPECT_EQ(result.out, "") << r.message;
    EXPECT_THAT(result.err, StartsWith("pipesim: "));
    EXPECT_THAT(result.err, HasSubstr(r.message));
    EXPECT_THAT(result.err, EndsWith("\n"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(SearchCommand, WrongUsageExitsWithTwo) {
  EXPECT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet"}).status, 2);
  EXPECT_EQ(
      pipesim_run({"search", "--model", "lenet", "--topology", "p100-4x4", "--algorithm", "mcmcc"}).status,
      2);
  EXPECT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4",
                         "--seconds", "nan"})
                .status,
            2);
  EXPECT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4",
                         "--proposals", "0"})
                .status,
            2);
  EXPECT_EQ(pipesim_run({"simulate"}).status, 2);
}

}  // namespace
}  // namespace pipesim

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

std::vector<std::string> on_experts(const std::string& command, std::vector<std::string> more) {
  std::vector<std::string> args{
      command, "--model",
      "mixtral-8x7b:batch=16,layers=2,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=64,ffn=64", "--topology",
      "dgx-h100:1"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(ImbalanceOptions, EvenIsAsIfItWereNotGiven) {
  const std::vector<std::string> plain{"--recipe", "dp8,ep8", "--json"};
  std::vector<std::string> even = plain;
  even.insert(even.end(), {"--imbalance", "1"});
  EXPECT_EQ(pipesim_run(on_experts("simulate", even)), pipesim_run(on_experts("simulate", plain)));
}

TEST(ImbalanceOptions, PlanFilesHoldIt) {
  const TemporaryFolder folder;
  for (const char* loads : {"1.5", "1.5,1.2,1,0.3"}) {
    const std::string file = folder.path("plan.json");
    const Outcome made = pipesim_run(on_experts("simulate", {"--recipe", "dp8,ep8", "--runtime", "pipesim",
                                                             "--imbalance", loads, "--json", "-o", file}));
    ASSERT_EQ(made.status, 0) << made.err;
    const auto time = [](const Outcome& outcome) {
      return nlohmann::json::parse(outcome.out)["iteration_time_s"];
    };
    EXPECT_EQ(time(pipesim_run({"simulate", "--plan", file, "--json"})), time(made));
    EXPECT_GT(
        time(made),
        time(pipesim_run(on_experts("simulate", {"--recipe", "dp8,ep8", "--runtime", "pipesim", "--json"}))));
    EXPECT_NE(read_file(file).find("\"imbalance\": "), std::string::npos);
    EXPECT_EQ(pipesim_run({"simulate", "--plan", file, "--imbalance", "2"}).err,
              "pipesim: simulate: --plan and --imbalance exclude each other: the plan tells them\n");
  }
}

TEST(ImbalanceOptions, EveryCommandRefusesWhatTheModelCannotHave) {
  const std::string dense = "pipesim: --imbalance 1.2: model \"lenet\" has no experts\n";
  for (std::vector<std::string> args : {std::vector<std::string>{"simulate", "--baseline", "expert"},
                                        {"compare"},
                                        {"search", "--algorithm", "mcmc", "--proposals", "1"},
                                        {"search", "--algorithm", "auto", "--proposals", "1"}}) {
    args.insert(args.end(), {"--model", "lenet", "--topology", "dgx-h100:1", "--imbalance", "1.2"});
    EXPECT_EQ(pipesim_run(args).err, dense) << args[0];
  }
  const auto message = [](const char* loads) {
    return pipesim_run(on_experts("simulate", {"--recipe", "dp8,ep8", "--imbalance", loads})).err;
  };
  EXPECT_EQ(message("0.5"), "pipesim: --imbalance \"0.5\", allowed: 1 or more, in shares of the mean load\n");
  EXPECT_EQ(message("1,2,3"),
            "pipesim: --imbalance 1,2,3: 3 loads for the 8 experts of \"layer1.dispatch\", allowed: a number "
            "that divides them\n");
  EXPECT_EQ(message("9"),
            "pipesim: --imbalance 9: the fullest expert would get 9 times the mean, allowed: up to 4 (each "
            "token goes to 2 of the 8 experts of \"layer1.dispatch\")\n");
}

TEST(ImbalanceOptions, CompareTakesItForRecipes) {
  const auto told = [](const char* loads) {
    return pipesim_run(on_experts("compare", {"--recipe", "dp8,ep8,mbs2", "--imbalance", loads, "--json"}))
        .out;
  };
  EXPECT_NE(told("3"), told("1"));
}

}  // namespace
}  // namespace pipesim

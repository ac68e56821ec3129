#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/slow_test.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

// One model of each family, as small as leaves something to choose, so that all take about a minute. Budgets
// are in proposals: the outcome is the same on every machine.
const std::vector<std::string> kContestants{
    "mlp:layers=4,features=256,hidden=512",
    "lenet:image=28",
    "rnnlm:steps=3,layers=2,hidden=128,vocab=500",
    "rnntc:steps=3,layers=2,hidden=128,embedded=128,vocab=500",
    "nmt:steps=2,layers=1,hidden=64,embedded=64,vocab=200",
    "gpt:layers=2,hidden=128,heads=4,vocab=500,sequence=32,positions=32",
    "llama:layers=2,hidden=128,heads=4,kv_heads=4,vocab=500,sequence=32,ffn=256",
    "t5-base:layers=1,hidden=64,heads=4,head_width=16,ffn=128,vocab=300,sequence=16,target=16",
    "bert-base:layers=2,hidden=128,heads=4,vocab=500,sequence=32,positions=32",
    "mixtral-8x7b:layers=1,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=300,sequence=16,experts=4",
};
const std::vector<std::string> kContestTopologies{"p100-4x4:1", "levels:2@10GB/s,2@1GB/s", "dgx-a100:1"};
constexpr int kProposals = 400, kShare = 120;  // of auto; that it gives its search over splits

struct Contested {
  std::string model, topology;
  // Returns the time of the best recipe. Recipes choose microbatches themselves, and some models have no
  // recipe.
  [[nodiscard]] double seconds_of_recipes() const {
    const Outcome outcome =
        pipesim_run({"search", "--model", model, "--topology", topology, "--batch", "32", "--algorithm",
                     "recipes", "--optimizer", "adam", "--runtime", "pipesim", "--json"});
    return outcome.status == 0 ? Json::parse(outcome.out)["iteration_time_s"].get<double>() : 1e300;
  }
  [[nodiscard]] double seconds(const std::string& algorithm, int microbatches, int proposals) const {
    std::vector<std::string> args{"search",      "--model",        model,
                                  "--topology",  topology,         "--batch",
                                  "32",          "--microbatches", std::to_string(microbatches),
                                  "--algorithm", algorithm,        "--json",
                                  "--optimizer", "adam",           "--runtime",
                                  "pipesim"};
    if (proposals > 0) args.insert(args.end(), {"--proposals", std::to_string(proposals)});
    const Outcome outcome = pipesim_run(args);
    // A planner may have no plan for a topology.
    return outcome.status == 0 ? Json::parse(outcome.out)["iteration_time_s"].get<double>() : 1e300;
  }
};

SLOW_TEST(AutoIsNoWorse, ThanAnyPlannerOrSearchThatItAsks) {
  std::size_t of_recipes = 0;
  for (const std::string& model : kContestants) {
    const bool has_recipes = model.find("heads") != std::string::npos;
    // Ranking recipes to the end, twice, takes most of the time: each model that has some gets one topology.
    const std::vector<std::string> topologies =
        has_recipes ? std::vector{kContestTopologies[of_recipes++ % kContestTopologies.size()]}
                    : kContestTopologies;
    for (const std::string& topology : topologies) {
      SCOPED_TRACE(model + " on " + topology);
      const Contested c{model, topology};
      const double best = c.seconds("auto", 2, kProposals);
      ASSERT_LT(best, 1e300);
      if (has_recipes) {
        EXPECT_LE(best, c.seconds_of_recipes());
      }
      for (const int microbatches : {1, 2, 8}) {
        for (const char* planner : {"gpipe", "pipedream", "dapple", "alpa"})
          EXPECT_LE(best, c.seconds(planner, microbatches, 0)) << planner << ", " << microbatches;
        EXPECT_LE(best, c.seconds("mcmc", microbatches, kShare)) << "mcmc, " << microbatches;
      }
      EXPECT_LE(best, c.seconds("intra", 2, 0)) << "intra";
      EXPECT_LE(best, 1.005 * c.seconds("mcmc", 2, kProposals)) << "mcmc, all proposals";
    }
  }
}

}  // namespace
}  // namespace pipesim

// Samples of a million tokens: nothing wraps around.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

constexpr double kMillion = 1 << 20;

// FLOPs of an iteration of one sample, by hand: six for each weight of a product and token, and six for each
// pair of a query and a key that it sees and number of all heads.
double flops_by_hand(double weights, double layers, double width) {
  return 6 * weights * kMillion + 6 * kMillion * kMillion * layers * width;
}

TEST(LongSequences, AreSimulated) {
  const auto simulated = [](const std::string& model, const std::string& recipe) {
    return nlohmann::json::parse(
        pipesim_run({"simulate", "--model", model + ":sequence=1048576", "--topology", "dgx-h100:16",
                     "--recipe", recipe, "--batch", "1", "--json"})
            .out);
  };
  const auto flops = [](const nlohmann::json& json) {
    return json["model_flops_per_s"].get<double>() * json["iteration_time_s"].get<double>();
  };
  const nlohmann::json small = simulated("llama3-8b", "tp8,cp16,dp1,mbs1,sp,recompute=full");
  const nlohmann::json large = simulated("llama3-405b", "tp8,cp16,dp1,mbs1,sp,recompute=full");
  const double of_small = flops_by_hand(7.505e9, 32, 4096), of_large = flops_by_hand(4.0375e11, 126, 16384);
  EXPECT_NEAR(flops(small) / of_small, 1, 0.01);
  EXPECT_NEAR(flops(large) / of_large, 1, 0.01);
  EXPECT_TRUE(small["fits"].get<bool>());
  EXPECT_GT(small["iteration_time_s"].get<double>(), of_small / (128 * 989e12));
  EXPECT_GT(large["iteration_time_s"].get<double>(), of_large / (128 * 989e12));
  EXPECT_FALSE(large["fits"].get<bool>());
}

TEST(LongSequences, AreSearched) {
  const Outcome found =
      pipesim_run({"search", "--model", "llama3-8b:layers=2,sequence=1048576", "--topology", "dgx-h100:2",
                   "--batch", "2", "--algorithm", "recipes", "--only", "tp=8", "--only", "cp=2", "--json"});
  ASSERT_EQ(found.status, 0) << found.err;
  const nlohmann::json json = nlohmann::json::parse(found.out);
  const double weights = 2 * (2 * 4096.0 * 4096 + 2 * 4096 * 1024 + 3 * 4096.0 * 14336) + 128256.0 * 4096;
  EXPECT_GT(json["iteration_time_s"].get<double>(), 2 * flops_by_hand(weights, 2, 4096) / (16 * 989e12));
  EXPECT_LT(json["iteration_time_s"].get<double>(), 6 * flops_by_hand(weights, 2, 4096) / (16 * 989e12));
}

}  // namespace
}  // namespace pipesim

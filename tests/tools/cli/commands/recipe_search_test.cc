// search --algorithm recipes.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/search/limited_memory.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using ::testing::HasSubstr;
using RecipeSearchJson = nlohmann::json;

// Eight A100 of which frameworks take no memory, so that a margin leaves every recipe the same.
std::string eight_devices() {
  const std::string file = testing::TempDir() + "eight.topology.json";
  write_file(file, to_json(with_device_memory("dgx-a100", 0)));
  return file;
}

Outcome search_recipes(const std::vector<std::string>& more, const std::string& batch = "16",
                       const std::string& algorithm = "recipes") {
  std::vector<std::string> args{
      "search",
      "--model",
      "llama3-8b:layers=4,hidden=256,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=512",
      "--topology",
      eight_devices(),
      "--batch",
      batch,
      "--algorithm",
      algorithm};
  args.insert(args.end(), more.begin(), more.end());
  return pipesim_run(args);
}

TEST(RecipeSearch, ProvesTheBestAndWritesIt) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const Outcome outcome = search_recipes({"--only", "mbs=2", "--not", "zero=2,3", "--json", "-o", plan});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const RecipeSearchJson json = RecipeSearchJson::parse(outcome.out);
  EXPECT_EQ(json["proven_optimal"], true);
  EXPECT_THAT(json["note"].get<std::string>(), HasSubstr("recipes, proven; "));
  const RecipeSearchJson& recipes = json["recipes"];
  EXPECT_EQ(recipes["left"], 0);
  EXPECT_EQ(recipes["bounded"], recipes["recipes"]);
  EXPECT_LT(recipes["simulated"], recipes["recipes"]);
  const RecipeSearchJson& best = recipes["best"][0];
  EXPECT_EQ(best["iteration_time_s"], json["iteration_time_s"]);
  EXPECT_EQ(best["recipe"], json["recipe"]);
  EXPECT_EQ(recipes["pareto_front"][0], best);
  EXPECT_THAT(best["recipe"].get<std::string>(), HasSubstr("mbs2"));
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(RecipeSearchJson::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);
}

TEST(RecipeSearch, ReportsTheBestTen) {
  const Outcome outcome = search_recipes({"--only", "mbs=2", "--only", "zero=0", "--only", "cp=1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("planned by recipes in "));
  EXPECT_THAT(outcome.out, HasSubstr("the others are slower by their bounds\n"));
  EXPECT_THAT(outcome.out, HasSubstr("iteration  at least   memory\n"));
}

std::string left_with_megabytes(std::int64_t number) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  return std::to_string(with_device_memory("dgx-a100", 0).usable_memory(DeviceId(0)).value -
                        number * kMegabyte) +
         " B";
}

// Splits alone need 13 MB or more on each device; the best recipe computes again what backward needs.
TEST(RecipeSearch, StandsInForAPlannerThatFindsNoPlan) {
  const std::string margin = left_with_megabytes(10);
  const Outcome outcome = search_recipes({"--memory-margin", margin, "--json"}, "16", "intra");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              testing::AllOf(HasSubstr("pipesim: intra: no choice of splits was found to fit into memory"),
                             HasSubstr("\npipesim: recipes stand in for intra, which has no answer\n")));
  const RecipeSearchJson json = RecipeSearchJson::parse(outcome.out);
  EXPECT_EQ(json["best"], "recipes");
  EXPECT_EQ(json["stands_in"], "recipes stand in for intra, which has no answer");
  const Outcome asked = search_recipes({"--memory-margin", margin, "--json"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  EXPECT_EQ(json["recipe"], RecipeSearchJson::parse(asked.out)["recipe"]);
  EXPECT_TRUE(RecipeSearchJson::parse(asked.out)["stands_in"].is_null());
}

// A mesh is for splits alone, and without --seconds nothing is cut short.
TEST(RecipeSearch, StandsInForNothingThatItDoesNotChoose) {
  const std::string margin = left_with_megabytes(10);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--mesh", "2x4"}, {"--seconds", "0"}}) {
    std::vector<std::string> options{"--memory-margin", margin};
    options.insert(options.end(), more.begin(), more.end());
    const Outcome outcome = search_recipes(options, "16", "intra");
    EXPECT_NE(outcome.status, 0);
    EXPECT_THAT(outcome.err, testing::StartsWith("pipesim: intra: no choice of splits"));
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("stand in")));
  }
}

// Its other algorithms would find plans that nobody asked for.
TEST(RecipeSearch, HasNoOtherPlanWhereConditionsLeaveNoRecipe) {
  for (const std::string algorithm : {"recipes", "auto"}) {
    const Outcome outcome = search_recipes({"--only", "mbs=2", "--seconds", "20"}, "127", algorithm);
    EXPECT_EQ(outcome.status, 1) << algorithm;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("pipesim: recipes: --only mbs=2 leaves no recipe of 127 samples on 8 "
                                       "devices; with no other condition, allowed for mbs: 1\n"));
  }
}

TEST(RecipeSearch, SaysWhatCannotBe) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& batch = "16") {
    const Outcome outcome = search_recipes(more, batch);
    EXPECT_NE(outcome.status, 0);
    return outcome.err;
  };
  EXPECT_EQ(
      refused({"--only", "tp=3"}),
      "pipesim: recipes: --only tp=3 leaves no recipe of 16 samples on 8 devices; with no other condition, "
      "allowed for tp: 1, 2, 4, 8\n");
  EXPECT_EQ(refused({"--not", "zero=4"}), "pipesim: --not zero=4: found \"4\", allowed for zero: 0 to 3\n");
  EXPECT_THAT(refused({"--recompute", "full"}),
              HasSubstr("search: --recompute does not go with --algorithm recipes, which chooses that; see "
                        "--only recompute=full"));
  EXPECT_THAT(
      refused({"--memory-margin", left_with_megabytes(1)}),
      HasSubstr(
          "is too large for topology \"dgx-a100\": weights, gradients and adam state need 47.2 MB, all 8 "
          "devices together have 8 MB beside the margin; 39.2 MB are missing: it takes 48 or more such "
          "devices\n"));
  EXPECT_THAT(
      refused({"--only", "tp=8", "--memory-margin", left_with_megabytes(6)}),
      testing::AllOf(HasSubstr("pipesim: recipes: none of "),
                     HasSubstr(" recipes fits into memory: each needs at least "),
                     HasSubstr("devices with more memory, would help, or fewer conditions of --only and "
                               "--not\n")));
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kModel =
    "llama:layers=4,hidden=64,heads=8,kv_heads=2,vocab=96,sequence=32,ffn=64,batch=16";

std::vector<std::string> on_eight(const std::string& command, std::vector<std::string> more) {
  std::vector<std::string> args{command, "--model", kModel, "--topology", "dgx-h100:1"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

Json simulated(std::vector<std::string> more) {
  more.emplace_back("--json");
  const Outcome outcome = pipesim_run(on_eight("simulate", std::move(more)));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

TEST(RecipeOptions, ThePlanFileHoldsTheRecipe) {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  const Json made = simulated({"--recipe", "tp2,pp2,sp", "-o", file});
  EXPECT_EQ(made["recipe"], "tp2,pp2,dp2,sp,mbs1");
  EXPECT_EQ(made["found_by"], "recipe");
  EXPECT_EQ(Json::parse(read_file(file))["recipe"], "tp2,pp2,dp2,sp,mbs1");
  EXPECT_EQ(Json::parse(read_file(file))["optimizer"], "adam");
  const Json again = Json::parse(pipesim_run({"simulate", "--plan", file, "--json"}).out);
  EXPECT_EQ(again["iteration_time_s"], made["iteration_time_s"]);
  EXPECT_EQ(again["recipe"], made["recipe"]);
}

TEST(RecipeOptions, TensorOverlapOfARecipeOverridesTheRuntime) {
  // Large enough for its messages to take longer than to begin.
  const auto large = [](std::vector<std::string> more) {
    std::vector<std::string> args{"simulate",   "--model",  "llama3-8b:layers=2,batch=8",
                                  "--topology", "dgx-h100", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = pipesim_run(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const auto time = [&](const char* recipe, const char* runtime) {
    return large({"--recipe", recipe, "--runtime", runtime}).at("iteration_time_s").get<double>();
  };
  const double waits = time("tp8,sp", "megatron"), hidden = time("tp8,sp,tp-overlap", "megatron");
  EXPECT_LT(hidden, waits);
  EXPECT_EQ(time("tp8,sp", "megatron:tensor-overlap=always"), hidden);
  EXPECT_EQ(time("tp8,sp,tp-overlap=never", "megatron:tensor-overlap=always"), waits);
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  EXPECT_EQ(large({"--recipe", "tp8,sp,tp-overlap", "-o", file})["recipe"], "tp8,dp1,sp,mbs1,tp-overlap");
  EXPECT_EQ(Json::parse(pipesim_run({"simulate", "--plan", file, "--json"}).out)["iteration_time_s"], hidden);
  EXPECT_EQ(pipesim_run(on_eight("execute", {"--recipe", "tp8,sp,tp-overlap"})).err,
            "pipesim: execute: tp-overlap of the recipe is simulated, not executed; allowed: other parts\n");
}

TEST(RecipeOptions, MicrobatchesFollow) {
  const auto told = [](std::vector<std::string> more) {
    const Outcome outcome = pipesim_run(on_eight("simulate", std::move(more)));
    return outcome.status == 0 ? outcome.out.substr(0, outcome.out.find('\n')) : outcome.err;
  };
  EXPECT_THAT(told({"--recipe", "tp2"}), HasSubstr("batch 16 in 4 microbatches of 4, plan by recipe"));
  EXPECT_THAT(told({"--recipe", "tp2,mbs2"}), HasSubstr("batch 16 in 2 microbatches of 8"));
  EXPECT_THAT(told({"--recipe", "tp2", "--batch", "32"}), HasSubstr("batch 32 in 8 microbatches of 4"));
  EXPECT_THAT(told({"--recipe", "tp2", "--microbatch", "8"}), HasSubstr("batch 16 in 2 microbatches of 8"));
  EXPECT_THAT(told({"--recipe", "tp2", "--batch", "32", "--microbatches", "2"}),
              HasSubstr("batch 32 in 2 microbatches of 16"));
  EXPECT_THAT(told({"--recipe", "tp2,mbs1", "--microbatches", "5"}),
              HasSubstr("batch 20 in 5 microbatches of 4"));
  EXPECT_EQ(told({"--recipe", "tp2,mbs3"}),
            "pipesim: recipe \"tp2,dp4,mbs3\": a microbatch has dp4 x mbs3 = 12 samples, of which the "
            "model's batch 16 "
            "is no multiple; --batch sets it\n");
  EXPECT_EQ(told({"--recipe", "tp2,mbs2", "--microbatch", "8"}),
            "pipesim: --microbatch 8 and mbs2 of the recipe exclude each other\n");
  EXPECT_EQ(told({"--recipe", "tp2", "--microbatch", "6"}),
            "pipesim: recipe \"tp2,dp4,mbs1\": dp4 does not divide --microbatch 6\n");
}

TEST(RecipeOptions, ExcludeWhatTheySay) {
  const auto refused = [](std::vector<std::string> more) {
    const Outcome outcome = pipesim_run(on_eight("simulate", std::move(more)));
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(refused({"--recipe", "tp2", "--baseline", "expert"}),
              HasSubstr("--recipe and --baseline exclude each other"));
  EXPECT_THAT(refused({"--recipe", "tp2", "--stages", "2"}),
              HasSubstr("--recipe and --stages exclude each other: the recipe says it (pp4)"));
  EXPECT_THAT(refused({"--recipe", "tp2", "--recompute", "full"}),
              HasSubstr("--recipe and --recompute exclude each other: the recipe says it (recompute=full)"));
  EXPECT_THAT(refused({"--recipe", "tp2", "--tokens", "15Q"}),
              HasSubstr("--tokens \"15Q\", allowed: a number above 0, with K, M, B or T, such as 15T"));
}

// Under a causal mask; the plan file names the model with its order of positions.
TEST(RecipeOptions, ContextParallelismSharesAttentionEqually) {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json"),
                    model = "llama:layers=1,hidden=1024,heads=16,kv_heads=16,vocab=96,sequence=8192,batch=1";
  const auto run = [&](const std::string& of, const char* recipe) {
    const Outcome outcome = pipesim_run({"simulate", "--model", of, "--topology", "dgx-h100:1", "--recipe",
                                         recipe, "--runtime", "pipesim", "--json", "-o", file});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  for (const auto& [recipe, zigzag] :
       {std::pair{"cp8", "zigzag=8"}, {"cp8,ulysses=4", "zigzag=2"}, {"cp8,ring", "zigzag=8"}}) {
    const Json made = run(model, recipe);
    EXPECT_EQ(made["compute_s"].front(), made["compute_s"].back()) << recipe;
    EXPECT_THAT(Json::parse(read_file(file))["model"].get<std::string>(), HasSubstr(zigzag));
    EXPECT_EQ(Json::parse(pipesim_run({"simulate", "--plan", file, "--json"}).out)["iteration_time_s"],
              made["iteration_time_s"]);
    const Json plain = run(model + ",zigzag=1", recipe);
    EXPECT_LT(plain["compute_s"].front(), plain["compute_s"].back()) << recipe;
    EXPECT_GT(plain["iteration_time_s"], made["iteration_time_s"]) << recipe;
  }
}

TEST(RecipeOptions, RefuseHeadsThatAreNoPartOfTheSequence) {
  const auto refused = [](const char* recipe) {
    const Outcome outcome = pipesim_run(on_eight("simulate", {"--recipe", recipe}));
    EXPECT_EQ(outcome.status, 1) << recipe;
    return outcome.err;
  };
  EXPECT_THAT(refused("cp4,ulysses=3"), HasSubstr("ulysses=3 does not divide cp4; the nearest that is"));
  EXPECT_THAT(refused("tp4,ulysses=2"), HasSubstr("ulysses=2 does not divide cp1; the nearest that is"));
  EXPECT_THAT(refused("tp2,cp4,ulysses=3"), HasSubstr("ulysses=3 does not divide cp4"));
}

TEST(RecipeOptions, RefuseRingsWithoutPartsOfTheSequence) {
  const auto refused = [](const std::string& model, const char* recipe) {
    const Outcome outcome =
        pipesim_run({"simulate", "--model", model, "--topology", "dgx-h100:1", "--recipe", recipe});
    EXPECT_EQ(outcome.status, 1) << recipe;
    return outcome.err;
  };
  const std::string gpt = "gpt:batch=8,layers=2,hidden=64,heads=8,vocab=64,sequence=16,positions=16";
  EXPECT_EQ(refused(gpt, "tp8,ring"),
            "pipesim: recipe \"tp8,ring,dp1,mbs1\": ring passes keys and values round parts of the sequence, "
            "which cp1 does not make; the nearest that is possible: tp8,dp1,mbs1\n");
  EXPECT_EQ(refused(gpt, "cp4,ulysses=4,ring"),
            "pipesim: recipe \"cp4,ulysses=4,ring,dp2,mbs1\": ring passes keys and values round parts of the "
            "sequence, which cp4,ulysses=4 does not make; the nearest that is possible: cp4,dp2,mbs1\n");
  EXPECT_EQ(
      refused(gpt + ",attention=scores", "cp8,ring"),
      "pipesim: recipe \"cp8,ring,dp1,mbs1\": ring needs attention with as many keys as queries that keeps "
      "no scores, and \"layer1.attention\" (scored_attention) is not such; the nearest that is possible: "
      "cp8,dp1,mbs1\n");
}

TEST(RecipeOptions, CompareShowsSeveral) {
  const Outcome text = pipesim_run(on_eight("compare", {"--recipe", "tp8", "--recipe", "tp2,pp2,sp"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              testing::AllOf(HasSubstr("\n  tp8 "), HasSubstr("\n  tp2,pp2,sp "), HasSubstr("fastest plan")));
  const Outcome json =
      pipesim_run(on_eight("compare", {"--recipe", "tp8", "--recipe", "tp2,pp2,sp", "--json"}));
  const Json recipes = Json::parse(json.out)["recipes"];
  ASSERT_EQ(recipes.size(), 2);
  EXPECT_EQ(recipes[1]["recipe"], "tp2,pp2,dp2,sp,mbs1");
  EXPECT_EQ(recipes[1]["iteration_time_s"], simulated({"--recipe", "tp2,pp2,sp"})["iteration_time_s"]);
}

SLOW_TEST(RecipeOptions, SearchesBeginWithThem) {
  const auto found = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--proposals", "20", "--json"});
    const Outcome outcome = pipesim_run(on_eight("search", std::move(more)));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["iteration_time_s"].get<double>();
  };
  const auto alone = [](const char* recipe) {
    return simulated({"--recipe", recipe})["iteration_time_s"].get<double>();
  };
  EXPECT_LE(found({"--algorithm", "mcmc", "--recipe", "tp4,sp"}), alone("tp4,sp"));
  EXPECT_LE(found({"--algorithm", "auto", "--recipe", "tp2,pp2"}), alone("tp2,pp2"));
  const Outcome pipeline = pipesim_run(on_eight("search", {"--algorithm", "mcmc", "--recipe", "tp2,pp2"}));
  EXPECT_EQ(pipeline.status, 2);
  EXPECT_THAT(pipeline.err, HasSubstr("search: --recipe with pp2 needs --algorithm auto"));
}

TEST(RecipeOptions, TokensTakeTimeAndMoney) {
  const Json report = simulated({"--recipe", "tp2", "--tokens", "2B"});
  const double hours = 2e9 / report["tokens_per_s"].get<double>() / 3600;
  EXPECT_NEAR(report["training_days"].get<double>(), hours / 24, 1e-9 * hours);
  EXPECT_NEAR(report["device_hours"].get<double>(), 8 * hours, 1e-9 * hours);
  EXPECT_FALSE(report.contains("price"));

  const TemporaryFolder folder;
  const std::string file = folder.path("priced.json");
  std::string text = pipesim_run({"topologies", "dgx-h100:1", "--json"}).out;
  text.insert(text.find("\"name\""), "\"price_per_hour\": 2.5, ");
  write_file(file, text);
  const Outcome priced = pipesim_run(
      {"simulate", "--model", kModel, "--topology", file, "--recipe", "tp2", "--tokens", "2B", "--json"});
  ASSERT_EQ(priced.status, 0) << priced.err;
  EXPECT_NEAR(Json::parse(priced.out)["price"].get<double>(), 2.5 * 8 * hours, 1e-9 * hours);
  EXPECT_THAT(pipesim_run({"topologies", file, "--json"}).out, HasSubstr("\"price_per_hour\": 2.5"));
  EXPECT_THAT(pipesim_run({"topologies", file, "--json", "--expanded"}).out,
              HasSubstr("\"price_per_hour\": 2.5"));

  const Outcome none = pipesim_run({"simulate", "--model", "lenet:batch=8", "--topology", "cpu:2",
                                    "--baseline", "data-parallel", "--tokens", "1M"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("--tokens: the model has no tokens"));
}

}  // namespace
}  // namespace pipesim

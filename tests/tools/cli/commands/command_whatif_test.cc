#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/slow_test.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using StudyJson = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> joined_words(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

const std::vector<std::string> kGpt{"--model", "gpt:layers=4", "--topology", "dgx-a100:2", "--batch", "64"};

// Few recipes, which soon are ranked.
const std::vector<std::string> kFewRecipes{"--only", "cp=1",   "--only", "mbs=1,2", "--only",
                                           "vpp=1",  "--only", "pp=1,2", "--only",  "recompute=none"};

StudyJson json_run(const std::vector<std::string>& args) {
  const Outcome outcome = pipesim_run(joined_words(args, {"--json"}));
  EXPECT_EQ(outcome.status, 0) << outcome;
  return StudyJson::parse(outcome.out);
}

// Each point is what simulate says of the same plan on the changed topology, alone.
TEST(WhatIf, PointsEqualSingleRuns) {
  const StudyJson study =
      json_run(joined_words({"whatif", "--recipe", "tp2,zero1", "--vary", "inter_node.bandwidth=25,100Gb/s",
                             "--vary", "slow:node0.gpu3=1,1.5", "--threads", "2"},
                            kGpt));
  ASSERT_EQ(study["points"].size(), 4U);
  for (const StudyJson& point : study["points"]) {
    const auto value = [&](std::size_t axis) {
      return study["axes"][axis]["values"][point["at"][axis].get<std::size_t>()].get<std::string>();
    };
    std::vector<std::string> args = joined_words({"simulate", "--recipe", "tp2,zero1"}, kGpt);
    args[6] = "dgx-a100:2+inter_node.bandwidth=" + value(0) + "+slow:node0.gpu3=" + value(1);
    const StudyJson single = json_run(args);
    EXPECT_EQ(point["time_s"], single["iteration_time_s"]);
    std::int64_t peak = 0;
    for (const auto& [device, bytes] : single["peak_memory_bytes"].items())
      peak = std::max(peak, bytes.get<std::int64_t>());
    EXPECT_EQ(point["memory_bytes"], peak);
    EXPECT_EQ(point["tokens_per_s"], single["tokens_per_s"]);
    EXPECT_EQ(point["mfu"], single["mfu"]);
    // One of 16 devices is slow: (15 + 1 / 1.5) / 16 · 19.5.
    EXPECT_EQ(point["mfu_counts"], value(1) == "1"
                                       ? "causal attention at half; of 19.5 TFLOP/s, the rate of float32"
                                       : "causal attention at half; of 19.09 TFLOP/s on average, the rate "
                                         "of float32");
  }
  EXPECT_GT(study["points"][1]["time_s"], study["points"][0]["time_s"]);
}

SLOW_TEST(WhatIf, RecipesOfPointsAreTheBestOfEach) {
  const StudyJson study = json_run(joined_words(
      joined_words({"whatif", "--vary", "nodes=1,2", "--vary", "device.memory=x1,x0.1"}, kGpt), kFewRecipes));
  EXPECT_EQ(study["plans"], "recipes");
  for (const StudyJson& point : study["points"]) {
    std::vector<std::string> args = joined_words({"search", "--algorithm", "recipes"}, kGpt);
    args[6] = point["at"][0] == 0 ? "dgx-a100:1" : "dgx-a100:2";
    args[6] += point["at"][1] == 0 ? "+device.memory=x1" : "+device.memory=x0.1";
    const StudyJson single = json_run(joined_words(args, kFewRecipes));
    EXPECT_EQ(point["time_s"], single["iteration_time_s"]);
    EXPECT_EQ(point["recipe"], single["recipe"]);
  }
}

// What a recipe overlaps decides the time of its plan, whatever others would overlap.
TEST(WhatIf, PlansOfAFrameworkEqualSearches) {
  const std::vector<std::string> asked{"--model",    "llama3-8b:layers=4,sequence=1024",
                                       "--topology", "dgx-h100:1",
                                       "--batch",    "32",
                                       "--for",      "megatron",
                                       "--only",     "tp=8",
                                       "--seconds",  "0"};
  const StudyJson study = json_run(joined_words({"whatif", "--vary", "device.memory=70,80GB"}, asked));
  const StudyJson single = json_run(joined_words({"search"}, asked));
  ASSERT_EQ(study["points"].size(), 2U);
  EXPECT_EQ(study["points"][1]["time_s"], single["iteration_time_s"]);
  EXPECT_EQ(study["points"][1]["recipe"], single["recipe"]);
}

// Searches with a budget in proposals, each from the plan of the point before.
SLOW_TEST(WhatIf, BytesDoNotDependOnThreads) {
  const std::vector<std::string> asked = joined_words(
      {"whatif", "--plans", "search", "--proposals", "10", "--model", "gpt:layers=2", "--topology",
       "dgx-a100:1,gpus=4", "--vary", "intra_node.bandwidth=x0.1,x1", "--vary", "batch=8,16,32"},
      kFewRecipes);
  const Outcome one = pipesim_run(joined_words(asked, {"--threads", "1", "--json"}));
  EXPECT_EQ(one.status, 0) << one;
  EXPECT_EQ(pipesim_run(joined_words(asked, {"--threads", "3", "--json"})), one);
}

TEST(WhatIf, GoesOnWithWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string file = folder.path("study.json");
  const Outcome whole = pipesim_run(joined_words(
      {"whatif", "--recipe", "tp2", "--vary", "inter_node.bandwidth=25,50,100Gb/s", "-o", file}, kGpt));
  ASSERT_EQ(whole.status, 0) << whole;
  const std::string bytes = read_file(file);
  StudyJson part = StudyJson::parse(bytes);
  part["points"].erase(1);
  write_file(file, part.dump());
  const Outcome rest = pipesim_run({"whatif", "--resume", file});
  EXPECT_EQ(rest.status, 0) << rest;
  EXPECT_EQ(rest.out, whole.out);
  EXPECT_EQ(read_file(file), bytes);
}

SLOW_TEST(WhatIf, FindsWhereTheKindOfPlanChanges) {
  const StudyJson study = json_run(
      joined_words({"whatif", "--vary", "device.memory=4,80GB", "--crossovers", "--model",
                    "gpt:layers=8,hidden=2048,heads=16", "--topology", "dgx-a100:1", "--batch", "32"},
                   kFewRecipes));
  ASSERT_EQ(study["crossovers"].size(), 1U);
  const StudyJson& c = study["crossovers"][0];
  EXPECT_EQ(c["axis"], "device.memory");
  EXPECT_NE(c["from"], c["to"]);
  const double low = std::stod(c["low"].get<std::string>()), high = std::stod(c["high"].get<std::string>());
  EXPECT_GT(low, 4 - 1e-9);
  EXPECT_GT(high, low);
  EXPECT_LE(high / low, 1.021);
}

TEST(WhatIf, NamesTheCheapestPoint) {
  const std::vector<std::string> asked = joined_words(
      {"whatif", "--recipe", "tp2", "--vary", "nodes=1,2", "--vary", "device.price=2", "--tokens", "1B"},
      kGpt);
  EXPECT_THAT(pipesim_run(joined_words(asked, {"--target-time", "100d"})).out,
              HasSubstr("the cheapest within 100d: nodes=1 device.price=2, tp2,dp4,mbs1 in "));
  EXPECT_THAT(pipesim_run(joined_words(asked, {"--target-cost", "1000000"})).out,
              HasSubstr("the fastest for 1000000: nodes=2"));
  EXPECT_THAT(pipesim_run(joined_words(asked, {"--target-time", "1us"})).out,
              HasSubstr("the cheapest within 1us: no point"));
}

TEST(WhatIf, AnswersQuestionsAboutOnePlan) {
  const StudyJson answer = json_run(joined_words({"whatif", "--recipe", "tp2", "--sensitivity", "--noise",
                                                  "devices=5%", "--samples", "50", "--mtbf", "50000h"},
                                                 kGpt));
  EXPECT_GE(answer["sensitivity"].size(), 7U);
  for (const StudyJson& figure : answer["sensitivity"])
    EXPECT_LE(figure["simulated_s"], answer["iteration_time_s"].get<double>() * 1.0001);
  EXPECT_GT(answer["memory"]["needs_bytes"], 0);
  EXPECT_GT(answer["memory"]["has_bytes"], answer["memory"]["needs_bytes"]);
  EXPECT_GT(answer["noise"]["mean_s"], answer["noise"]["without_s"]);
  EXPECT_GE(answer["noise"]["quantiles_s"]["p95"], answer["noise"]["quantiles_s"]["p50"]);
  EXPECT_NEAR(answer["failures"]["between_failures_s"].get<double>(), 50'000.0 * 3600 / 16, 1);
}

TEST(WhatIf, NoiseMakesAColumn) {
  const StudyJson study =
      json_run(joined_words({"whatif", "--recipe", "tp2", "--vary", "nodes=1,2", "--noise", "devices=5%",
                             "--samples", "20", "--objective", "p90"},
                            kGpt));
  EXPECT_EQ(study["objective"], "p90");
  for (const StudyJson& point : study["points"]) EXPECT_GT(point["objective_s"], point["time_s"]);
}

TEST(WhatIf, ListsWhatCanBeVaried) {
  const Outcome list = pipesim_run(joined_words({"whatif", "--list"}, kGpt));
  EXPECT_THAT(list.out, AllOf(HasSubstr("inter_node.bandwidth"), HasSubstr("24 GB/s"),
                              HasSubstr("model.hidden"), HasSubstr("recipe.tp"), HasSubstr("nodes")));
  const StudyJson json = json_run(joined_words({"whatif", "--list"}, kGpt));
  EXPECT_GT(json["figures"].size(), 40U);
}

TEST(WhatIf, SaysWhatIsWrong) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Outcome outcome =
        pipesim_run(joined_words(joined_words({"whatif", "--recipe", "tp2"}, kGpt), more));
    EXPECT_NE(outcome.status, 0) << outcome;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(refusal({}), HasSubstr("--vary PATH=VALUES is missing"));
  EXPECT_THAT(refusal({"--vary", "inter_node.bandwith=1GB/s"}),
              HasSubstr("did you mean \"inter_node.bandwidth\"?"));
  EXPECT_THAT(refusal({"--vary", "inter_node.bandwidth=1"}), HasSubstr("the unit is missing"));
  EXPECT_THAT(refusal({"--vary", "recipe.tpp=1"}), HasSubstr("did you mean \"tp\"?"));
  EXPECT_THAT(refusal({"--vary", "nodes=1..100001+1"}), HasSubstr("the study has 100001 points"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "--vary", "nodes=2"}), HasSubstr("--vary nodes is given twice"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "--plans", "recipes"}),
              HasSubstr("--recipe does not go with it"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "--sensitivity"}), HasSubstr("--vary does not go with it"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "--target-time", "3d"}), HasSubstr("need --tokens"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "--samples", "3"}), HasSubstr("--samples needs --noise"));
  EXPECT_THAT(refusal({"--noise", "calibration"}), HasSubstr("--noise calibration needs --calibration"));
  EXPECT_THAT(refusal({"--noise", "gpus=3%"}), HasSubstr("found \"gpus=3%\", allowed: operators=2%"));
  EXPECT_THAT(refusal({"--vary", "nodes=1", "-o", "/no/such/folder/x.json"}), HasSubstr("/no/such/folder"));
}

TEST(WhatIf, KeepsToTheStudyThatItGoesOnWith) {
  const TemporaryFolder folder;
  const std::string file = folder.path("study.json");
  ASSERT_EQ(
      pipesim_run(joined_words({"whatif", "--recipe", "tp2", "--vary", "nodes=1", "-o", file}, kGpt)).status,
      0);
  const std::string before = read_file(file);
  EXPECT_THAT(pipesim_run({"whatif", "--resume", file, "--model", "llama3-8b"}).err,
              HasSubstr("is a study with --model gpt:layers=4, not llama3-8b"));
  EXPECT_THAT(pipesim_run({"whatif", "--resume", file, "--vary", "nodes=2"}).err,
              HasSubstr("exclude each other"));
  StudyJson json = StudyJson::parse(before);
  json["model_fingerprint"] = "0000";
  write_file(file, json.dump());
  EXPECT_THAT(pipesim_run({"whatif", "--resume", file}).err,
              HasSubstr("the study is of a model with the fingerprint 0000"));
}

// Paths that change together are columns of their own, and a point is what its values say.
TEST(WhatIf, VariesSeveralFiguresTogether) {
  const Outcome outcome = pipesim_run(
      joined_words({"whatif", "--recipe", "tp2", "--vary", "nodes|model.layers|batch=1|2|32;2|8|64"}, kGpt));
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("nodes  model.layers  batch  iteration"), HasSubstr("1             2     32"),
                    HasSubstr("2             8     64"), HasSubstr("2 points")));
  const StudyJson study = json_run(
      joined_words({"whatif", "--recipe", "tp2", "--vary", "nodes|model.layers|batch=1|2|32;2|8|64"}, kGpt));
  const StudyJson alone = json_run({"simulate", "--recipe", "tp2", "--model", "gpt:layers=8", "--topology",
                                    "dgx-a100:2", "--batch", "64"});
  EXPECT_EQ(study["points"][1]["time_s"], alone["iteration_time_s"]);
}

// A recipe that is varied is the plan of its points.
TEST(WhatIf, ScoresRecipesThatAreVaried) {
  for (const char* axis : {"recipe=tp2;tp4,zero1", "nodes|recipe=1|tp2;2|tp4,zero1", "recipe.tp=2,4"}) {
    const Outcome outcome = pipesim_run(joined_words({"whatif", "--vary", axis}, kGpt));
    EXPECT_EQ(outcome.status, 0) << outcome;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("plans: same"), HasSubstr("tp4,dp")));
  }
}

TEST(WhatIf, TakesModelAndTopologyFromWhatIsVaried) {
  const Outcome outcome =
      pipesim_run({"whatif", "--batch", "16", "--recipe", "tp2", "--vary", "model=gpt:layers=2;gpt:layers=4",
                   "--vary", "topology=dgx-a100,dgx-h100"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("4 points"), HasSubstr("gpt:layers=4  dgx-h100")));
}

TEST(WhatIf, PointsThatCannotBeAskedForSayWhy) {
  const Outcome mixed =
      pipesim_run(joined_words({"whatif", "--recipe", "tp2", "--vary", "recipe=tp2;tpx"}, kGpt));
  EXPECT_EQ(mixed.status, 0) << mixed;
  EXPECT_THAT(mixed.out, AllOf(HasSubstr("tp2,dp8,mbs1"), HasSubstr("tpx")));
  const Outcome searched = pipesim_run({"whatif", "--model", "lenet", "--topology", "p100-4x4:1", "--plans",
                                        "search", "--vary", "algorithm=gpipe,mcmc"});
  EXPECT_EQ(searched.status, 0) << searched;
  EXPECT_THAT(searched.out, HasSubstr("algorithm=mcmc: allowed in studies: gpipe"));
  const Outcome none =
      pipesim_run(joined_words({"whatif", "--recipe", "tp2", "--vary", "recipe.tp=32,64"}, kGpt));
  EXPECT_EQ(none.status, 1) << none;
  EXPECT_THAT(none.err, HasSubstr("whatif: no point has a plan, the first because: recipe \"tp32"));
  EXPECT_THAT(none.out, Not(HasSubstr("0 ns")));
}

// Stages that are no recipe's are a pipeline.
TEST(WhatIf, TellsPipelinesFromCopies) {
  const Outcome outcome =
      pipesim_run({"whatif", "--model", "bert-base:layers=4", "--topology", "dapple-b", "--batch", "16",
                   "--baseline", "data-parallel", "--vary", "stages=1;8,8;16", "--vary", "microbatches=4"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("straight pipeline"), Not(HasSubstr("gpipe")), Not(HasSubstr("hand"))));
}

// A point that can't be is a row with its reason, and the others are there.
TEST(WhatIf, PointsWithoutAPlanSayWhy) {
  const Outcome outcome =
      pipesim_run(joined_words({"whatif", "--recipe", "tp2", "--vary", "recipe.tp=2,64"}, kGpt));
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("tp2,dp8,mbs1"), HasSubstr("recipe \"tp64"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace pipesim

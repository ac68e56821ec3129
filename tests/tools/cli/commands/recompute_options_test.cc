#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* kSmallGpt = "gpt:batch=4,layers=4,hidden=64,heads=4,sequence=16,vocab=100";

std::vector<std::string> baseline(const std::string& recompute, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"simulate",   "--model",       kSmallGpt,     "--topology", "p100-4x4:1",
                                "--baseline", "data-parallel", "--recompute", recompute};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(RecomputeOption, SimulateTellsTimeAndMemory) {
  const auto report = [](const std::string& recompute) {
    const Outcome json = pipesim_run(baseline(recompute, {"--json"}));
    EXPECT_EQ(json.status, 0) << json.err;
    return Json::parse(json.out);
  };
  const Json none = report("none"), selective = report("selective"), full = report("full");
  EXPECT_FALSE(none.contains("recompute_s"));
  const auto peak = [](const Json& json) { return json["peak_memory_bytes"]["gpu0"].get<std::int64_t>(); };
  EXPECT_LT(peak(full), peak(selective));
  EXPECT_LT(peak(selective), peak(none));
  const auto compute = [](const Json& json) { return json["compute_s"]["gpu0"].get<double>(); };
  for (const Json& json : {selective, full})
    EXPECT_NEAR(compute(json) - compute(none), json["recompute_s"]["gpu0"].get<double>(), 1e-12);
  EXPECT_THAT(pipesim_run(baseline("full")).out,
              AllOf(HasSubstr("batch 4, recompute full, "), HasSubstr("\n  recompute ")));
  EXPECT_THAT(pipesim_run(baseline("none")).out, Not(HasSubstr("recompute")));
}

TEST(RecomputeOption, StagesAreRunAgain) {
  const Outcome text = pipesim_run(baseline("full", {"--stages", "4", "--microbatches", "8"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("R forward again, B backward"), ContainsRegex("\n      0 [FB.-]*R"),
                              HasSubstr("recompute ")));
  const Outcome why = pipesim_run(baseline(
      "full", {"--stages", "4", "--microbatches", "8", "--explain", "ffn1 recompute of microbatch 2"}));
  EXPECT_THAT(why.out, HasSubstr("layer1.ffn1 recompute of microbatch 2 on gpu0"));
}

TEST(RecomputeOption, SearchWritesItIntoThePlan) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const Outcome found =
      pipesim_run({"search", "--algorithm", "mcmc", "--model", kSmallGpt, "--topology", "p100-4x4:1",
                   "--proposals", "60", "--recompute", "selective", "-o", plan});
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(Json::parse(read_file(plan))["recompute"], "selective");
  EXPECT_THAT(pipesim_run({"simulate", "--plan", plan}).out, HasSubstr("recompute selective"));
}

TEST(RecomputeOption, PlansMayListOperators) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  ASSERT_EQ(pipesim_run({"search", "--model", kSmallGpt, "--topology", "p100-4x4:1", "--algorithm",
                         "data-parallel", "-o", plan})
                .status,
            0);
  const Json before = Json::parse(pipesim_run({"simulate", "--plan", plan, "--json"}).out);
  Json json = Json::parse(read_file(plan));
  json["recompute"] = {"layer1.attention_norm..layer1.ffn_add", Json{"layer2.ffn1", "layer2.ffn2"}};
  write_file(plan, json.dump());
  const Json after = Json::parse(pipesim_run({"simulate", "--plan", plan, "--json"}).out);
  EXPECT_LT(after["peak_memory_bytes"]["gpu0"], before["peak_memory_bytes"]["gpu0"]);
  EXPECT_GT(after["recompute_s"]["gpu0"], 0.0);
  EXPECT_THAT(pipesim_run({"simulate", "--plan", plan}).out,
              testing::ContainsRegex("batch 4, recompute of [0-9]+ operators"));
}

TEST(RecomputeOption, GpipePlansStagesWithIt) {
  const Outcome json =
      pipesim_run({"search", "--model", kSmallGpt, "--topology", "p100-4x4:1", "--algorithm", "gpipe",
                   "--microbatches", "4", "--stages", "4", "--recompute", "full", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_TRUE(Json::parse(json.out).contains("recompute_s"));
}

TEST(RecomputeOption, ExecuteComputesWhatTheUnsplitModelDoes) {
  const Outcome result =
      pipesim_run({"execute", "--model", "gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8",
                   "--topology", "cpu:2", "--baseline", "data-parallel", "--recompute", "full", "--steps",
                   "2", "--warmup", "0", "--no-realtime", "--oversubscribe", "--check"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("step 2: "), Not(HasSubstr("NOT EQUAL"))));
}

TEST(RecomputeOption, IsRefusedWhereItDoesNotFit) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  struct Refused {
    std::vector<std::string> args;
    int status;
    std::string message;
  };
  const std::vector<Refused> refusals{
      {{"simulate", "--plan", plan, "--recompute", "full"}, 2, "--plan and --recompute exclude each other"},
      {{"search", "--model", "lenet", "--topology", "p100-4x4:1", "--algorithm", "exhaustive", "--recompute",
        "full"},
       2,
       "--algorithm exhaustive and --recompute exclude each other"},
      {{"compare", "--model", "lenet", "--topology", "p100-4x4:1", "--recompute", "some"}, 2, "--recompute"},
      {{"compare", "--model", "lenet", "--topology", "p100-4x4:1", "--recompute", "selective"},
       1,
       "--recompute selective: selective runs attention again, and model \"lenet\" has none"}};
  for (const Refused& refused : refusals) {
    const Outcome result = pipesim_run(refused.args);
    EXPECT_EQ(result.status, refused.status) << refused.message;
    EXPECT_THAT(result.err, HasSubstr(refused.message));
  }
}

}  // namespace
}  // namespace pipesim

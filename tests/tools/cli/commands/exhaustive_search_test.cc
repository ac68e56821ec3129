#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/planner_search.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(PlannerSearch, ExhaustiveIsNoWorseThanAnyPlanner) {
  const std::string plan = folder_.path("plan.json");
  const Outcome best = run({"--microbatches", "4", "--json", "-o", plan}, "exhaustive");
  ASSERT_EQ(best.status, 0) << best.err;
  const Json json = Json::parse(best.out);
  EXPECT_THAT(json["note"].get<std::string>(), HasSubstr("proven best of"));
  EXPECT_EQ(json["proven_optimal"], true);
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);
  EXPECT_EQ(Json::parse(simulated.out)["found_by"], "exhaustive");
  for (const char* planner : {"gpipe", "pipedream", "alpa"}) {
    const Outcome other = run({"--microbatches", "4", "--json"}, planner);
    EXPECT_LE(json["iteration_time_s"].get<double>(),
              Json::parse(other.out)["iteration_time_s"].get<double>())
        << planner;
  }
  const Outcome two = run({"--stages", "2", "--schedule", "gpipe", "--json"}, "exhaustive");
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(Json::parse(two.out)["pipeline"]["stages"].size(), 2);
  EXPECT_EQ(Json::parse(two.out)["pipeline"]["schedule"], "gpipe");
}

TEST_F(PlannerSearch, ExhaustiveKeepsToItsBudget) {
  const std::vector<std::string> few{"--microbatches", "4", "--proposals", "3", "--json"};
  const Outcome outcome = run(few, "exhaustive");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["proven_optimal"], false);
  EXPECT_THAT(json["note"].get<std::string>(),
              HasSubstr("not proven: the budget ended the search after 3 of up to "));
  EXPECT_EQ(Json::parse(run(few, "exhaustive").out)["iteration_time_s"], json["iteration_time_s"]);
}

TEST_F(PlannerSearch, ExhaustiveRefusesWhatIsTooMuch) {
  const auto refused = [&](const std::string& topology, const std::vector<std::string>& more,
                           const std::string& microbatches = "4") {
    std::vector<std::string> args{"search",     "--model",        "gpt:layers=4,batch=16",
                                  "--topology", topology,         "--algorithm",
                                  "exhaustive", "--microbatches", microbatches};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = pipesim_run(args);
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  };
  EXPECT_EQ(refused("p100-4x4", {}),
            "pipesim: exhaustive: at least 10100000000 pipelines of 8 layers on 16 devices, allowed: up to "
            "1000000; ask for fewer with --layers, --stages, --schedule or a smaller topology\n");
  EXPECT_THAT(refused("p100-4x4:1", {"--stages", "9"}),
              HasSubstr("9 stages for 8 layers, allowed: 1 to 8; see --layers"));
  EXPECT_THAT(refused("levels:65@1GB/s", {}), HasSubstr("found 65 devices, allowed: up to 64 for pipelines"));
  EXPECT_THAT(refused("p100-4x4:1", {"--schedule", "gpipe", "--stages", "5"}),
              HasSubstr("no pipeline of 8 layers on 4 devices can be made so; found 4 devices, which is too "
                        "few for 5 groups of them"));
  const auto such = [&](const std::string& stages, const std::string& schedule) {
    const std::string text = refused("p100-4x4:1", {"--stages", stages, "--schedule", schedule});
    EXPECT_THAT(text, HasSubstr("exhaustive: no pipeline of 8 layers on 4 devices can be made so; "));
    return text.substr(text.find("; ") + 2);
  };
  EXPECT_EQ(such("3", "chimera"), "schedule \"chimera\": found 3 stages, allowed: an even number, like 4\n");
  EXPECT_EQ(such("1", "chimera"), "schedule \"chimera\": found 1 stage, allowed: an even number, like 2\n");
  EXPECT_THAT(refused("p100-4x4:1", {"--stages", "4", "--schedule", "pipedream"}),
              HasSubstr("exhaustive: 4 stages for 2 layers, allowed: 1 to 2; schedule \"pipedream\" allows "
                        "no cut between uses of a weight"));
  EXPECT_THAT(
      refused("p100-4x4:1", {"--stages", "1", "--schedule", "2bw"}, "4097"),
      HasSubstr("on 4 devices can be made so; pipeline: schedule \"2bw\": found 4097 microbatches for "
                "1 stage, allowed: from 1 to 4096"));
  EXPECT_THAT(refused("levels:1@1GB/s", {"--batch", "40000"}),
              AllOf(HasSubstr("pipelines of 8 layers fits into memory; the nearest lacks "),
                    HasSubstr("B, all devices together")));
  EXPECT_THAT(refused("levels:1@1GB/s", {"--batch", "40000", "--proposals", "3"}),
              HasSubstr("exhaustive: the budget ended the search after 3 of up to "));
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> pipeline(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> args{
      command,        "--model",    "gpt:batch=4,layers=4,hidden=64,heads=4,sequence=16,vocab=100",
      "--topology",   "p100-4x4:1", "--baseline",
      "data-parallel"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(PipelineOptions, SimulateShowsStagesAndTheirTime) {
  const Outcome text = pipesim_run(pipeline("simulate", {"--stages", "4", "--microbatches", "8"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("plan by gpipe"), HasSubstr("pipeline 1f1b: 4 stages, 8 microbatches"),
                    HasSubstr("in flight"), HasSubstr("F forward")));
  const Outcome json = pipesim_run(pipeline("simulate", {"--stages", "4", "--microbatches", "8", "--json"}));
  const Json report = Json::parse(json.out)["pipeline"];
  EXPECT_EQ(report["schedule"], "1f1b");
  std::vector<int> in_flight;
  for (const Json& stage : report["stages"]) in_flight.push_back(stage["in_flight"]);
  EXPECT_THAT(in_flight, testing::ElementsAre(4, 3, 2, 1));
  EXPECT_GT(report["idle"], 0.0);
  EXPECT_LT(report["idle"], 1.0);
}

TEST(PipelineOptions, StagesMayBeListed) {
  const auto stages = [](const std::string& list) {
    const Outcome json =
        pipesim_run(pipeline("simulate", {"--stages", list, "--microbatches", "4", "--json"}));
    EXPECT_EQ(json.status, 0) << json.err;
    return Json::parse(json.out);
  };
  const Json listed = stages("2@layer1.ffn_add,1@layer3.ffn_add,1");
  EXPECT_EQ(listed["found_by"], "hand");
  const Json& rows = listed["pipeline"]["stages"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["devices"], 2);
  EXPECT_EQ(rows[1]["devices"], 1);
  EXPECT_EQ(stages("1,1,2")["pipeline"]["stages"][2]["devices"], 2);  // ends are found where none are told

  const auto refused = [](const std::string& list, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args{"--stages", list};
    args.insert(args.end(), more.begin(), more.end());
    return pipesim_run(pipeline("simulate", args));
  };
  EXPECT_EQ(refused("2,2@loss"),
            (Outcome{2, "",
                     "pipesim: --stages: found \"@loss\" at the last stage of \"2,2@loss\", which ends "
                     "with the model: leave it out\n"}));
  EXPECT_THAT(refused("2@layer1.ffn_ad,2").err, HasSubstr("(did you mean \"layer1.ffn_add\"?)"));
  EXPECT_THAT(refused("3,2").err, HasSubstr("stages of 5 devices together, topology \"p100-4x4:1\" has 4"));
  EXPECT_THAT(refused("2,2", {"--chunks", "2"}).err,
              HasSubstr("--chunks needs --stages N: listed stages share no devices"));
  EXPECT_THAT(refused("many").err, HasSubstr("option --stages needs a whole number"));
}

TEST(PipelineOptions, DapplesScoreOfListedStages) {
  const auto score = [](const std::vector<std::string>& more) {
    std::vector<std::string> args{"search",  "--model",      "alexnet",      "--topology", "p100-4x4:1",
                                  "--batch", "512",          "--microbatch", "16",         "--algorithm",
                                  "dapple",  "--cost-model", "paper",        "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome json = pipesim_run(args);
    EXPECT_EQ(json.status, 0) << json.err;
    return Json::parse(json.out);
  };
  const auto speedup = [](const Json& json) { return json["objective"]["value"].get<double>(); };
  const Json best = score({});
  for (const char* stages : {"1", "4", "2,2", "3,1", "1,1,2", "2@pool3,2"}) {
    const Json given = score({"--stages", stages});
    EXPECT_GT(speedup(given), 0);
    EXPECT_LE(speedup(given), speedup(best) * (1 + 1e-12)) << stages;
  }
  EXPECT_EQ(score({"--stages", "3,1"})["stage_devices"], Json::array({3, 1}));
  const Outcome odd = pipesim_run({"search", "--model", "alexnet:batch=64", "--topology", "p100-4x4:1",
                                   "--algorithm", "dapple", "--stages", "3"});
  EXPECT_EQ(odd.err, "pipesim: dapple: 3 stages do not divide 4 devices\n");
}

TEST(PipelineOptions, MoreMicrobatchesLeaveDevicesLessIdle) {
  const auto idle = [](const char* microbatches) {
    const Outcome json = pipesim_run(pipeline(
        "simulate", {"--stages", "4", "--microbatches", microbatches, "--schedule", "gpipe", "--json"}));
    return Json::parse(json.out)["pipeline"]["idle"].get<double>();
  };
  EXPECT_GT(idle("2"), idle("8"));
  EXPECT_GT(idle("8"), idle("32"));
}

TEST(PipelineOptions, ExecuteComputesWhatTheUnsplitModelDoes) {
  const Outcome result = pipesim_run({"execute",
                                      "--model",
                                      "lenet:batch=4",
                                      "--topology",
                                      "cpu:2",
                                      "--baseline",
                                      "data-parallel",
                                      "--stages",
                                      "4",
                                      "--chunks",
                                      "2",
                                      "--schedule",
                                      "interleaved",
                                      "--microbatches",
                                      "4",
                                      "--steps",
                                      "2",
                                      "--warmup",
                                      "0",
                                      "--no-realtime",
                                      "--oversubscribe",
                                      "--check"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("step 2: "), testing::Not(HasSubstr("NOT EQUAL"))));
}

// Every weight in one stage.
std::vector<std::string> untied(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> args = pipeline(command, more);
  args[2] = "mlp:batch=64,layers=7,hidden=256";
  return args;
}

// The pipeline never empties, but what is drawn and what a step executes does.
TEST(PipelineOptions, SchedulesWithoutEndTellTheirRate) {
  const Outcome text =
      pipesim_run(untied("simulate", {"--stages", "4", "--microbatches", "8", "--schedule", "pipedream"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("from empty to empty"), HasSubstr("stashed weights"),
                              HasSubstr("U update of weights")));
  const auto json = [](const char* microbatches) {
    return Json::parse(pipesim_run(untied("simulate", {"--stages", "4", "--microbatches", microbatches,
                                                       "--schedule", "pipedream", "--json"}))
                           .out);
  };
  const Json few = json("8"), many = json("80");
  EXPECT_LT(few["iteration_time_s"].get<double>(), few["makespan_s"].get<double>());
  EXPECT_NEAR(many["iteration_time_s"].get<double>(), 10 * few["iteration_time_s"].get<double>(), 1e-7);
  EXPECT_EQ(many["peak_memory_bytes"], few["peak_memory_bytes"]);
}

TEST(PipelineOptions, SchedulesWithoutEndAreRefusedWhereTheyDoNotFit) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& message) {
    const Outcome result = pipesim_run(untied("simulate", more));
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused({"--stages", "4", "--chunks", "2", "--schedule", "pipedream"}, "found 2 chunks a device");
  refused({"--stages", "2", "--schedule", "2bw", "--microbatches", "5000"},
          "found 5000 microbatches for 2 stages, allowed: from 1 to 4096");
}

TEST(PipelineOptions, ReplicasMayTakeTurns) {
  const Outcome text = pipesim_run(
      untied("simulate", {"--stages", "3x1,1", "--microbatches", "8", "--schedule", "pipedream"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("3x1"), HasSubstr("    0.0 F"), HasSubstr("    0.2 "),
                              HasSubstr("\n      1 ")));
  const auto refused = [](const std::string& command, const std::vector<std::string>& more, int status,
                          const std::string& message) {
    const Outcome result = pipesim_run(untied(command, more));
    EXPECT_EQ(result.status, status);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused("simulate", {"--stages", "3x1,1", "--schedule", "gpipe"}, 1,
          "it takes no replicas that have microbatches in turn, allowed: pipedream");
  refused("simulate", {"--stages", "3y1,1"}, 2, "or REPLICASxDEVICES, such as 4x2");
  refused("execute",
          {"--stages", "2x1,1", "--schedule", "pipedream", "--microbatches", "3", "--oversubscribe"}, 1,
          "are executed in whole turns: found 3 microbatches, allowed: a multiple of 2");
  const Outcome executed = pipesim_run(
      untied("execute", {"--stages", "2x1,1", "--schedule", "pipedream", "--microbatches", "4", "--steps",
                         "2", "--warmup", "0", "--no-realtime", "--oversubscribe", "--check"}));
  EXPECT_EQ(executed.status, 0) << executed.err;
  EXPECT_THAT(executed.out, AllOf(HasSubstr("step 2: "), testing::Not(HasSubstr("NOT EQUAL"))));
}

// Chimera (Li and Hoefler, SC 2021): each worker has a stage of both directions. Of as many
// microbatches as stages, half go each way; a worker holds from D/2 + 1 to D of them (table 2).
TEST(PipelineOptions, BothWaysAreToldApart) {
  const TemporaryFolder folder;
  const std::string trace = folder.path("trace.json");
  const std::vector<std::string> asked{"--stages", "4", "--microbatches", "4", "--schedule", "chimera"};
  std::vector<std::string> traced = asked, json = asked;
  traced.insert(traced.end(), {"--trace", trace});
  json.push_back("--json");
  const Outcome text = pipesim_run(pipeline("simulate", traced));
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* row :
       {"\n    0/3 ", "\n    1/2 ", "\n    2/1 ", "\n    3/0 ", "of even and of odd microbatches"})
    EXPECT_THAT(text.out, HasSubstr(row));
  std::vector<std::int64_t> in_flight;
  const Json report = Json::parse(pipesim_run(pipeline("simulate", json)).out);
  for (const Json& stage : report["pipeline"]["stages"]) in_flight.push_back(stage["in_flight"]);
  EXPECT_THAT(in_flight, ElementsAre(2, 2, 2, 1));
  std::vector<std::string> names;
  const Json events = Json::parse(read_file(trace))["traceEvents"];
  for (const Json& event : events) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"gpu0 (stages 0/3)", "gpu1 (stages 1/2)", "gpu2 (stages 2/1)",
                                            "gpu3 (stages 3/0)"}));
}

TEST(PipelineOptions, WhatCanOnlyBeSimulatedIsNotExecuted) {
  for (const char* schedule : {"2bw", "chimera"}) {
    const Outcome result =
        pipesim_run(untied("execute", {"--stages", "2", "--schedule", schedule, "--oversubscribe"}));
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("can be simulated, not executed")) << schedule;
  }
}

TEST(PipelineOptions, AreRefusedWhereTheyDoNotFit) {
  const auto refused = [](const std::vector<std::string>& more, int status, const std::string& message) {
    const Outcome result = pipesim_run(pipeline("simulate", more));
    EXPECT_EQ(result.status, status);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused({"--schedule", "gpipe"}, 2, "--schedule needs --stages");
  refused({"--chunks", "2"}, 2, "--chunks needs --stages");
  refused({"--stages", "5"}, 1, "5 stages for 4 devices, allowed: up to 4");
  refused({"--stages", "0"}, 2, "--stages");
  refused({"--stages", "2", "--schedule", "1f2b"}, 2, "did you mean \"1f1b\"");
  refused({"--stages", "4", "--chunks", "2", "--microbatches", "3", "--schedule", "interleaved"}, 1,
          "schedule \"interleaved\"");
  refused({"--stages", "2", "--schedule", "both-ways"}, 2,
          "--schedule is one of gpipe, 1f1b, eager-1f1b, interleaved, "
          "interleaved-groups:GROUP, interleaved-beside:GROUP, zb-h1, zb-h2, zb-auto:LIMIT");
  refused({"--stages", "2", "--schedule", "zb-auto"}, 2, "--schedule: schedule \"zb-auto\": found no number");
  refused({"--stages", "2", "--schedule", "zb-auto:0"}, 2, "found the number \"0\", allowed: zb-auto:LIMIT");
  refused({"--stages", "3", "--schedule", "chimera"}, 1, "found 3 stages, allowed: an even number, like 4");
  refused({"--stages", "4", "--chunks", "2", "--schedule", "chimera"}, 1,
          "found 2 chunks a device, allowed: 1");
  refused({"--stages", "2", "--schedule", "pipedream"}, 1,
          "weight \"word_embedding.w\" is used in several stages");
  refused({"--stages", "64", "--chunks", "64"}, 1, "64 stages for");
  const Outcome other = pipesim_run(
      {"simulate", "--model", "lenet", "--topology", "p100-4x4:1", "--baseline", "expert", "--stages", "2"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--stages makes a pipeline of --baseline data-parallel only"));
}

TEST(PipelineOptions, TracesTellStagesAndMicrobatches) {
  const TemporaryFolder folder;
  const std::string trace = folder.path("trace.json");
  const Outcome outcome =
      pipesim_run({"simulate", "--model", "lenet:batch=8", "--topology", "p100-4x4:1", "--baseline",
                   "data-parallel", "--stages", "2", "--microbatches", "3", "--trace", trace});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::set<std::string> processes, microbatches, stages;
  const Json json = Json::parse(read_file(trace));
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["ph"] != "X") continue;
    if (event["args"].contains("microbatch")) microbatches.insert(event["args"]["microbatch"]);
    if (event["args"].contains("stage")) stages.insert(event["args"]["stage"]);
  }
  EXPECT_THAT(processes, testing::IsSupersetOf({"gpu0 (stage 0)", "gpu3 (stage 1)"}));
  EXPECT_THAT(microbatches, testing::ElementsAre("1", "2", "3"));
  EXPECT_THAT(stages, testing::ElementsAre("0", "1"));
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/tools/planner_search.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Under a schedule that keeps versions of weights, the steps of a recurrent layer stay in one stage.
TEST_F(PlannerSearch, PipeDreamPartsNoWeightsUnderItsSchedule) {
  const Outcome outcome = pipesim_run({"search", "--model", "gnmt8:batch=16,steps=3,hidden=64,vocab=100",
                                       "--topology", "p100-4x4:1", "--algorithm", "pipedream", "--schedule",
                                       "pipedream", "--microbatches", "8", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json pipeline = Json::parse(outcome.out)["pipeline"];
  EXPECT_EQ(pipeline["schedule"], "pipedream");
  EXPECT_GT(pipeline["stages"].size(), 1U);
}

TEST_F(PlannerSearch, PipeDreamsObjectiveIsPrintedAndItsPlanSimulates) {
  const std::string plan = folder_.path("plan.json");
  const Outcome straight = run(
      {"--cost-model", "paper", "--straight", "--use-fewer", "--microbatches", "4", "--json", "-o", plan});
  ASSERT_EQ(straight.status, 0) << straight.err;
  const Json json = Json::parse(straight.out);
  EXPECT_NEAR(json["objective"]["value"].get<double>(), 6e-3, 1e-12);  // the middle layer's
  EXPECT_EQ(json["pipeline"]["stages"].size(), json["stage_devices"].size());
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);
  EXPECT_EQ(Json::parse(simulated.out)["found_by"], "pipedream");

  const Outcome free = run({"--json"});
  EXPECT_NEAR(Json::parse(free.out)["objective"]["value"].get<double>(), 3e-3, 1e-12);  // all on all four
}

TEST_F(PlannerSearch, ActivationTransfersMayBeCompressed) {
  const auto objective = [&](const std::string& option) {
    return Json::parse(run({option, "--straight", "--use-fewer", "--json"}).out)["objective"]["value"]
        .get<double>();
  };
  EXPECT_DOUBLE_EQ(objective("--activation-transfers"), objective("--activation-transfers=1"));
  EXPECT_LE(objective("--activation-transfers=4"), objective("--activation-transfers=1"));
}

TEST_F(PlannerSearch, DapplesScoreIsItsSpeedup) {
  const std::string plan = folder_.path("plan.json");
  const Outcome by_paper = run({"--cost-model", "paper", "--profile-batch", "4", "--batch", "64",
                                "--microbatch", "4", "--json", "-o", plan},
                               "dapple");
  ASSERT_EQ(by_paper.status, 0) << by_paper.err;
  const Json json = Json::parse(by_paper.out);
  // Without gradients or data that count, four copies of everything.
  EXPECT_NEAR(json["objective"]["value"].get<double>(), 4, 1e-3);
  EXPECT_EQ(json["stage_devices"], Json({4}));
  EXPECT_EQ(Json::parse(read_file(plan))["microbatches"], 4);
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);

  const Outcome judged = run({"--batch", "64", "--microbatch", "4"}, "dapple");
  ASSERT_EQ(judged.status, 0) << judged.err;
  EXPECT_THAT(judged.out, AllOf(HasSubstr("pipelines were simulated"), HasSubstr("planned by dapple")));
  EXPECT_THAT(run({"--batch", "62", "--microbatch", "4"}, "dapple").err,
              HasSubstr("--batch 62 is no multiple of --microbatch 4"));
}

// The published optimizer drops them: their time is no work, and they are no stage.
TEST_F(PlannerSearch, DappleLeavesInputsOut) {
  const std::vector<std::string> asked{"--cost-model", "paper", "--profile-batch", "4",
                                       "--batch",      "64",    "--microbatch",    "4"};
  const auto planned = [&](std::vector<std::string> more) {
    more.insert(more.end(), asked.begin(), asked.end());
    return run(more, "dapple");
  };
  const auto json = [&](std::vector<std::string> more) {
    more.push_back("--json");
    const Outcome outcome = planned(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const std::vector<std::vector<std::string>> stages{{}, {"--stages", "2,2"}, {"--stages", "1,1,2"}};
  std::vector<double> scores;
  for (const auto& more : stages) scores.push_back(json(more)["objective"]["value"].get<double>());
  std::string slow_input = kThreeLayers;
  slow_input.replace(slow_input.find("forward_compute_time=0"), 22, "forward_compute_time=9");
  write_file(profile_, slow_input);
  for (std::size_t i = 0; i < stages.size(); ++i)
    EXPECT_DOUBLE_EQ(json(stages[i])["objective"]["value"].get<double>(), scores[i]);

  EXPECT_TRUE(json({"--stages", "1"})["objective"]["activation_factor"].is_null());
  EXPECT_EQ(json({"--stages", "2,2"})["objective"]["activation_factor"], 1);
  EXPECT_EQ(json({"--stages", "1,1,2"})["objective"]["activation_factor"], 2);
  EXPECT_THAT(planned({"--stages", "2,2"}).out,
              HasSubstr(" times as fast as one device, with activations counted once where they hold up the "
                        "pipeline, says the planner\n"));
  EXPECT_THAT(
      planned({"--stages", "1,1,2"}).out,
      HasSubstr("with activations counted twice where they hold up the pipeline, says the planner\n"));
  EXPECT_EQ(planned({"--stages", "1@node1 Input0,3"}).err,
            "pipesim: dapple: stage 0 holds nothing but inputs, which get no stage; it ends with \"node1 "
            "Input0\"\n");
  write_file(profile_, slow_input.substr(0, slow_input.find('\n') + 1));
  EXPECT_EQ(planned({}).err, "pipesim: dapple: model \"profile\" has no layers but inputs\n");
}

TEST_F(PlannerSearch, AlpaPlansWithSimulatedOrGivenCosts) {
  const Outcome own = run({"--microbatches", "4", "--layers", "3"}, "alpa");
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, AllOf(HasSubstr("planned by alpa"), HasSubstr("schedules were simulated")));

  const std::string costs = folder_.file(
      "costs.json",
      R"({"L": 2, "D": 4, "B": 3, "submesh": [[1, 2]], "entries": [[0, 0, 0, 0, 0.5, 7], [1, 1, 0, 0, 0.25, 7]]})");
  const Outcome alone = pipesim_run({"search", "--algorithm", "alpa", "--stage-costs", costs, "--json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(Json::parse(alone.out)["objective"]["value"], 0.75 + 2 * 0.5);
  EXPECT_EQ(Json::parse(alone.out)["stages"].size(), 2);
  const Outcome of_model = run({"--stage-costs", costs, "--json"}, "alpa");
  ASSERT_EQ(of_model.status, 0) << of_model.err;
  EXPECT_EQ(Json::parse(of_model.out)["objective"]["value"], 0.75 + 2 * 0.5);
  EXPECT_EQ(Json::parse(of_model.out)["stage_devices"], Json({2, 2}));

  const std::string large = folder_.file(
      "large.json", R"({"L": 1, "D": 3, "B": 3, "submesh": [[1, 2]], "entries": [[0, 0, 0, 0, 0.5, 7]]})");
  const std::string other = folder_.file(
      "other.json",
      R"({"L": 2, "D": 4, "B": 8, "submesh": [[1, 2], [2, 2]], "entries": [[0, 1, 1, 0, 1, 9]]})");
  EXPECT_EQ(run({"--stage-costs", other}, "alpa").err,
            "pipesim: " + other +
                ": /submesh/1: found [2, 2], topology \"levels:4@10GB/s\" has 1 node of 4 devices; allowed: "
                "devices "
                "of one node, or whole nodes\n");
  EXPECT_THAT(pipesim_run({"search", "--algorithm", "alpa", "--stage-costs", large}).err,
              HasSubstr("no stages of its entries have all 1 layers, exactly 3 devices"));
  EXPECT_THAT(run({"--stage-costs", large}, "alpa").err,
              HasSubstr("/D: found 3 devices, the topology has 4"));
}

TEST_F(PlannerSearch, TellsWhatAProfileIsTakenFor) {
  const std::string profile = folder_.file(
      "two.txt",
      "node1 -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, "
      "parameter_size=100.0\n"
      "node2 -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, "
      "parameter_size=100.0\n\tnode1 -- node2\n");
  const std::string note =
      profile + " does not tell with how many samples it was measured: 64 were taken (--profile-batch)";
  const auto tells = [&](std::vector<std::string> args, const std::string& model) {
    args.insert(args.end(), {"--model", model, "--topology", "p100-4x4:1"});
    const Outcome text = pipesim_run(args);
    EXPECT_EQ(text.status, 0) << text.err;
    args.emplace_back("--json");
    const Json json = Json::parse(pipesim_run(args).out);
    const bool in_text = text.out.find(note) != std::string::npos;
    EXPECT_EQ(in_text, (json.contains("profile_note") && json["profile_note"] == note)) << text.out;
    return in_text;
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"search", "--algorithm", "gpipe"},
        std::vector<std::string>{"search", "--algorithm", "mcmc", "--proposals", "50"},
        std::vector<std::string>{"compare"},
        std::vector<std::string>{"simulate", "--baseline", "data-parallel"}}) {
    EXPECT_TRUE(tells(command, profile)) << command.front();
    EXPECT_FALSE(tells(command, profile + ":profile-batch=32")) << command.front();
    std::vector<std::string> told = command;
    told.insert(told.end(), {"--profile-batch", "32"});
    EXPECT_FALSE(tells(told, profile)) << command.front();
  }
}

TEST_F(PlannerSearch, AutoAsksAllAndIsNoWorse) {
  const std::string plan = folder_.path("plan.json");
  const std::vector<std::string> asked{"--proposals", "300", "--microbatches", "4", "--json", "-o", plan};
  const Outcome outcome = run(asked, "auto");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  std::vector<std::string> names;
  for (const Json& row : json["contributions"]) {
    names.push_back(row["algorithm"]);
    for (const char* key : {"algorithm", "iteration_time_s", "fits", "devices_used", "wall_time_s", "note"})
      EXPECT_TRUE(row.contains(key)) << key << " of " << names.back();
    EXPECT_EQ(row.size(), 6U);
    EXPECT_EQ(row["iteration_time_s"].is_null(), row["devices_used"].is_null());
    if (row["fits"] == true) {
      EXPECT_LE(json["iteration_time_s"].get<double>(), row["iteration_time_s"].get<double>())
          << names.back();
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"data-parallel", "gpipe", "pipedream", "dapple", "alpa", "intra",
                                            "mcmc", "joint"}));
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);
  const std::string before = read_file(plan);
  ASSERT_EQ(run(asked, "auto").status, 0);
  EXPECT_EQ(read_file(plan), before);
  EXPECT_THAT(run({"--moves", "flexflow"}, "auto").err,
              HasSubstr("--moves does not go with --algorithm auto"));
  EXPECT_THAT(run({"--stages", "2"}, "auto").err, HasSubstr("--stages does not go with --algorithm auto"));
}

// In whichever part of its searches it ends, a search that goes on finds the same bytes.
TEST_F(PlannerSearch, AutoGoesOnFromACheckpoint) {
  const std::string plan = folder_.path("plan.json"), checkpoint = folder_.path("checkpoint");
  const auto search = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--microbatches", "4", "-o", plan});
    return run(more, "auto");
  };
  const auto with = [&](const char* file, std::vector<std::string> more) {
    more.insert(more.end(), {file, checkpoint});
    return search(more);
  };
  ASSERT_EQ(search({"--proposals", "1200", "--seed", "7", "--chains", "2"}).status, 0);
  const std::string whole = read_file(plan);
  ASSERT_EQ(
      with("--checkpoint", {"--proposals", "1200", "--seed", "7", "--chains", "2", "--threads", "2"}).status,
      0);
  EXPECT_EQ(read_file(plan), whole);
  Json kept = Json::parse(read_file(checkpoint));
  EXPECT_EQ(kept["mcmc"].size(), 1U);  // the best of all numbers of microbatches
  EXPECT_TRUE(kept.contains("joint"));
  EXPECT_EQ(with("--resume", {"--proposals", "1200"}).status, 0);
  EXPECT_EQ(read_file(plan), whole);
  kept.erase("joint");
  write_file(checkpoint, kept.dump());
  EXPECT_EQ(with("--resume", {"--proposals", "1200"}).status, 0);
  EXPECT_EQ(read_file(plan), whole);
  kept.erase("mcmc");
  for (int left = 4; left >= 0; --left) {  // as if it had been killed after its first algorithms
    kept["done"].erase(kept["done"].size() - 1);
    write_file(checkpoint, kept.dump());
    EXPECT_EQ(with("--resume", {"--proposals", "1200", "--threads", "2"}).status, 0);
    EXPECT_EQ(read_file(plan), whole) << left;
  }
  EXPECT_THAT(with("--resume", {"--proposals", "1200", "--seed", "8"}).err,
              HasSubstr("found seed 7, --seed says 8"));
  EXPECT_THAT(with("--resume", {"--proposals", "1200", "--chains", "3"}).err,
              HasSubstr("found chains 2, --chains says 3"));
  EXPECT_THAT(with("--resume", {"--proposals", "1200", "--recompute", "full"}).err,
              HasSubstr("/subject: the checkpoint is of another search: found no \"recompute\""));
  EXPECT_EQ(run({"--microbatches", "2", "--resume", checkpoint}, "auto").err.substr(0, 10), "pipesim: /");
  ASSERT_EQ(pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology", "p100-4x4:1",
                         "--proposals", "100", "--checkpoint", checkpoint})
                .status,
            0);
  EXPECT_THAT(
      with("--resume", {"--proposals", "1200"}).err,
      HasSubstr("this is a checkpoint of a search, not a checkpoint of a search with --algorithm auto"));
}

TEST_F(PlannerSearch, AutoGoesOnWhereAPlannerRefuses) {
  for (const char* proposals : {"1", "2", "3"}) {
    const Outcome outcome = run({"--batch", "10", "--proposals", proposals}, "auto");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  const std::string file = folder_.file("lenet.json", pipesim_run({"models", "lenet:batch=8", "--json"}).out);
  const Outcome of_file =
      pipesim_run({"search", "--model", file, "--topology", "p100-4x4:1", "--algorithm", "dapple"});
  EXPECT_EQ(of_file.status, 0) << of_file.err;
}

// Five samples of a microbatch do not divide by two or four devices.
TEST_F(PlannerSearch, RowsSayWhichDevicesAreUsed) {
  const std::vector<std::string> asked{"--batch", "15", "--microbatches", "3"};
  const Outcome text = run(asked, "gpipe");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("2 of 4 devices used"));
  std::vector<std::string> searched = asked;
  searched.insert(searched.end(), {"--proposals", "20"});
  const Outcome all = run(searched, "auto");
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out,
              testing::ContainsRegex("data-parallel +[0-9.]+ ms +[^ ]+ [a-z]+ +1 of 4 devices used"));
  EXPECT_THAT(all.out, testing::ContainsRegex("single-device +7\\.50000 ms"));
  searched.emplace_back("--json");
  const Json told = Json::parse(run(searched, "auto").out);
  for (const Json& row : told["contributions"]) {
    EXPECT_TRUE(row["algorithm"] != "data-parallel" || row["devices_used"] == 1);
  }
}

TEST_F(PlannerSearch, PlannersKeepToSecondsIfTheyAreGiven) {
  for (const char* planner : {"gpipe", "pipedream", "dapple", "alpa"}) {
    const Outcome enough = run({"--microbatches", "4", "--seconds", "600", "--json"}, planner);
    ASSERT_EQ(enough.status, 0) << enough.err;
    const Json without = Json::parse(run({"--microbatches", "4", "--json"}, planner).out);
    EXPECT_EQ(Json::parse(enough.out)["iteration_time_s"], without["iteration_time_s"]) << planner;
  }
}

TEST_F(PlannerSearch, GpipeBalancesItsStages) {
  const Outcome text = run({"--stages", "2", "--microbatches", "4"}, "gpipe");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("planned by gpipe"), HasSubstr("pipeline 1f1b: 2 stages, 4 microbatches")));
}

TEST_F(PlannerSearch, GpipeWithoutStagesTakesTheFastest) {
  const Outcome text = run({"--microbatches", "4"}, "gpipe");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("pipelines were simulated"), HasSubstr("data parallelism")));
  const double best = Json::parse(run({"--microbatches", "4", "--json"}, "gpipe").out)["iteration_time_s"];
  for (const char* stages : {"1", "2"}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      const Outcome one =
          run({"--microbatches", "4", "--stages", stages, "--schedule", schedule, "--json"}, "gpipe");
      EXPECT_LE(best, Json::parse(one.out)["iteration_time_s"].get<double>()) << stages << " " << schedule;
    }
  }
}

TEST_F(PlannerSearch, PlannersTellWhyNoPipelineSuits) {
  const auto refused = [](const std::string& algorithm) {
    const Outcome outcome =
        pipesim_run({"search", "--model", "lenet", "--topology", "levels:3@1GB/s", "--algorithm", algorithm,
                     "--schedule", "chimera", "--microbatches", "4"});
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  };
  EXPECT_EQ(refused("gpipe"),
            "pipesim: gpipe: no number of stages that divides the 3 devices suits; with 3 stages: pipeline: "
            "schedule \"chimera\": found 3 stages, allowed: an even number, like 4\n");
  EXPECT_EQ(
      refused("alpa"),
      "pipesim: alpa: schedule \"chimera\" needs an even number of stages with as many devices each, and no "
      "such pipeline of the model on 3 devices fits into memory; try another number of devices, or more "
      "--layers\n");
  EXPECT_THAT(refused("dapple"), HasSubstr("dapple: no pipeline that the score likes suits; of "));
}

TEST_F(PlannerSearch, StagesSayWhenTheyUseFewerDevices) {
  const Outcome text = pipesim_run({"search", "--model", profile_ + ":batch=8", "--topology",
                                    "levels:3@10GB/s", "--algorithm", "pipedream"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("2 of 3: a microbatch can't be split in more"));
}

// Whole microbatches go to replicas in turn: three devices take what a batch of 8 can't be split in, at the
// rate that the planner's model says.
TEST_F(PlannerSearch, PipeDreamsReplicasTakeTurnsUnderItsSchedule) {
  const std::string plan = folder_.path("plan.json"), trained = folder_.path("trained.txt");
  std::string layers(kThreeLayers);
  for (std::size_t at = 0; (at = layers.find("activation_size=8, parameter_size=0", at)) != std::string::npos;
       ++at) {
    if (at > layers.find("node2")) layers.replace(at, 35, "activation_size=8, parameter_size=80");
  }
  write_file(trained, layers);
  std::vector<std::string> args{"search",
                                "--model",
                                trained + ":batch=8",
                                "--topology",
                                "levels:3@10GB/s",
                                "--algorithm",
                                "pipedream",
                                "--schedule",
                                "pipedream",
                                "--microbatches",
                                "7",
                                "-o",
                                plan};
  const Outcome text = pipesim_run(args);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("3x1"), testing::Not(HasSubstr("can't be split"))));
  args.emplace_back("--json");
  const Json json = Json::parse(pipesim_run(args).out);
  EXPECT_EQ(Json::parse(read_file(plan))["replicas"], Json({3}));
  EXPECT_EQ(json["pipeline"]["stages"][0]["replicas"], 3);
  EXPECT_NEAR(json["objective"]["value"].get<double>(), 4e-3, 1e-6);
  EXPECT_GE(json["iteration_time_s"].get<double>(), 7 * 4e-3);
  EXPECT_NEAR(json["iteration_time_s"].get<double>(), 7 * 4e-3, 1e-3);  // transfers of gradients, updates
}

// A large input that only a late layer reads is loaded there.
TEST_F(PlannerSearch, WhatThePlannerLeavesOutStandsWhereItIsRead) {
  const std::string late = folder_.path("late.txt"), plan = folder_.path("plan.json");
  write_file(late,
             std::string(kThreeLayers) +
                 "node5 -- Input1 -- forward_compute_time=0, backward_compute_time=0, activation_size=8, "
                 "parameter_size=0\n\tnode5 -- node4\n");
  const Outcome made = pipesim_run({"search", "--model", late + ":batch=8", "--topology", "levels:3@10GB/s",
                                    "--algorithm", "pipedream", "--straight", "-o", plan});
  ASSERT_EQ(made.status, 0) << made.err;
  const Json stages = Json::parse(read_file(plan))["stages"];
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_THAT(stages[2].dump(), HasSubstr("node5 Input1"));
  EXPECT_THAT(stages[0].dump(), HasSubstr("node1 Input0"));
}

TEST_F(PlannerSearch, ModelsOfInputsOnlyAreRefused) {
  const std::string inputs = folder_.path("inputs.txt");
  write_file(inputs,
             "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=8, "
             "parameter_size=0\n");
  const Outcome made =
      pipesim_run({"search", "--model", inputs, "--topology", "levels:2@10GB/s", "--algorithm", "pipedream"});
  EXPECT_EQ(made.status, 1);
  EXPECT_THAT(made.err, HasSubstr("has no layers but inputs"));
}

TEST_F(PlannerSearch, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](const Outcome& outcome, int status, const std::string& message) {
    EXPECT_EQ(outcome.status, status);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  refused(run({"--proposals", "3"}), 2, "--proposals does not go with --algorithm pipedream");
  refused(run({"--stages", "2"}), 2, "--stages does not go with --algorithm pipedream");
  refused(run({"--straight"}, "mcmc"), 2, "--straight does not go with --algorithm mcmc");
  refused(run({"--chunks", "2"}, "gpipe"), 2, "--chunks needs --stages");
  refused(run({"--schedule", "turns"}, "gpipe"), 2, "--schedule is one of gpipe, 1f1b");
  refused(run({"--cost-model", "fair"}), 2, "--cost-model");
  refused(run({"--memory-limit", "much"}), 2, "--memory-limit");
  refused(run({"--memory-limit", "1 B", "--straight"}), 1, "memory limit");
  refused(run({"--activation-transfers=0"}), 2, "--activation-transfers");
  refused(run({"--schedule", "1f2b"}), 2, "did you mean \"1f1b\"");
  refused(pipesim_run({"search", "--model", "lenet", "--topology", "dgx1-v100", "--algorithm", "pipedream"}),
          1, "no hierarchy of equal groups");
}

}  // namespace
}  // namespace pipesim

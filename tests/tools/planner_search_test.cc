#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Three layers of 3, 6 and 3 ms, next to no data.
constexpr const char* kThreeLayers =
    "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=0, "
    "parameter_size=0\n"
    "node2 -- Linear(2, 3) -- forward_compute_time=1, backward_compute_time=2, activation_size=8, "
    "parameter_size=0\n"
    "node3 -- Linear(3, 4) -- forward_compute_time=2, backward_compute_time=4, activation_size=8, "
    "parameter_size=0\n"
    "node4 -- Linear(4, 2) -- forward_compute_time=1, backward_compute_time=2, activation_size=8, "
    "parameter_size=0\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

class PlannerSearch : public testing::Test {
 protected:
  PlannerSearch() { write_file(profile_, kThreeLayers); }
  [[nodiscard]] Outcome run(const std::vector<std::string>& more,
                            const std::string& algorithm = "pipedream") const {
    std::vector<std::string> args{"search",     "--model",         profile_ + ":batch=8",
                                  "--topology", "levels:4@10GB/s", "--algorithm",
                                  algorithm};
    args.insert(args.end(), more.begin(), more.end());
    return pipesim_run(args);
  }
  TemporaryFolder folder_;
  std::string profile_ = folder_.path("profile.txt");
};

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
  EXPECT_NEAR(json["planner_objective_s"].get<double>(), 6e-3, 1e-12);  // the middle layer's
  EXPECT_EQ(json["pipeline"]["stages"].size(), json["planner_devices"].size());
  const Outcome simulated = pipesim_run({"simulate", "--plan", plan, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iteration_time_s"], json["iteration_time_s"]);
  EXPECT_EQ(Json::parse(simulated.out)["found_by"], "pipedream");

  const Outcome free = run({"--json"});
  EXPECT_NEAR(Json::parse(free.out)["planner_objective_s"].get<double>(), 3e-3, 1e-12);  // all on all four
}

TEST_F(PlannerSearch, ActivationTransfersMayBeCompressed) {
  const auto objective = [&](const std::string& option) {
    return Json::parse(run({option, "--straight", "--use-fewer", "--json"}).out)["planner_objective_s"]
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
  EXPECT_NEAR(json["planner_objective_speedup"].get<double>(), 4, 1e-3);
  EXPECT_EQ(json["planner_devices"], Json({4}));
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

TEST_F(PlannerSearch, AlpaPlansWithSimulatedOrGivenCosts) {
  const Outcome own = run({"--microbatches", "4", "--layers", "3"}, "alpa");
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, AllOf(HasSubstr("planned by alpa"), HasSubstr("schedules were simulated")));

  const std::string costs = folder_.file(
      "costs.json",
      R"({"L": 2, "D": 4, "B": 3, "submesh": [[1, 2]], "entries": [[0, 0, 0, 0, 0.5, 7], [1, 1, 0, 0, 0.25, 7]]})");
  const Outcome alone = pipesim_run({"search", "--algorithm", "alpa", "--stage-costs", costs, "--json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(Json::parse(alone.out)["planner_objective_s"], 0.75 + 2 * 0.5);
  EXPECT_EQ(Json::parse(alone.out)["stages"].size(), 2);
  const Outcome of_model = run({"--stage-costs", costs, "--json"}, "alpa");
  ASSERT_EQ(of_model.status, 0) << of_model.err;
  EXPECT_EQ(Json::parse(of_model.out)["planner_objective_s"], 0.75 + 2 * 0.5);
  EXPECT_EQ(Json::parse(of_model.out)["planner_devices"], Json({2, 2}));

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
    EXPECT_EQ(in_text, json.value("profile_note", "") == note) << text.out;
    return in_text;
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"search", "--algorithm", "gpipe"},
        std::vector<std::string>{"search", "--proposals", "50"}, std::vector<std::string>{"compare"},
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
    if (row.contains("iteration_time_s") && row["fits"].get<bool>()) {
      EXPECT_LE(json["iteration_time_s"].get<double>(), row["iteration_time_s"].get<double>())
          << names.back();
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"data-parallel", "gpipe", "pipedream", "dapple", "alpa", "mcmc", "joint"}));
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
  EXPECT_FALSE(kept.contains("mcmc"));
  EXPECT_GT(kept["joint"]["proposals"], 400);
  EXPECT_EQ(with("--resume", {"--proposals", "1200"}).status, 0);
  EXPECT_EQ(read_file(plan), whole);
  kept.erase("joint");
  for (int left = 2; left >= 0; --left) {  // as if it had been killed after its first algorithms
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
  ASSERT_EQ(pipesim_run({"search", "--model", "lenet", "--topology", "p100-4x4:1", "--proposals", "100",
                         "--checkpoint", checkpoint})
                .status,
            0);
  EXPECT_THAT(with("--resume", {"--proposals", "1200"}).err,
              HasSubstr("this is no checkpoint of a search with --algorithm auto"));
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
            "pipesim: exhaustive: at least 8.12e+09 pipelines of 8 layers on 16 devices, allowed: up to "
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
  EXPECT_THAT(refused("p100-4x4:1", {"--stages", "1", "--schedule", "2bw"}, "257"),
              HasSubstr("on 4 devices can be made so; pipeline: schedule \"2bw\": found 257 microbatches for "
                        "1 stage, allowed: from 1 to 256"));
  EXPECT_THAT(refused("levels:1@1GB/s", {"--batch", "40000"}),
              AllOf(HasSubstr("pipelines of 8 layers fits into memory; the nearest lacks "),
                    HasSubstr("B, all devices together")));
  EXPECT_THAT(refused("levels:1@1GB/s", {"--batch", "40000", "--proposals", "3"}),
              HasSubstr("exhaustive: the budget ended the search after 3 of up to "));
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
  EXPECT_NEAR(json["planner_objective_s"].get<double>(), 4e-3, 1e-6);
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
  refused(run({"--seconds", "3"}), 2, "--seconds does not go with --algorithm pipedream");
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

#include "executor/ranks/launched_ranks.h"

#include <gmock/gmock.h>

#include <map>

#include "executor/ranks/slurm_lists.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using Variables = std::map<std::string, std::string>;

std::optional<LaunchedRank> launched_with(const Variables& variables) {
  return launched_rank([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_of(Variables variables, const Variables& changed, const std::string& removed = "") {
  for (const auto& [name, value] : changed) variables[name] = value;
  variables.erase(removed);
  return refusal([&] { (void)launched_with(variables); });
}

const Variables kTorchrun{{"RANK", "5"},         {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kSlurm{{"SLURM_PROCID", "9"},
                       {"SLURM_STEP_ID", "2"},
                       {"SLURM_NTASKS", "11"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                       {"SLURM_JOB_NODELIST", "login,node[01-20]"},
                       {"SLURM_STEP_NODELIST", "node[03-05,9],login"},
                       {"SLURM_JOB_ID", "1251"}};

TEST(LaunchedRanks, AProcessThatNobodyLaunchedIsNone) {
  EXPECT_EQ(launched_with({}), std::nullopt);
  // Left over from somebody's shell, or set for the children of a batch script.
  EXPECT_EQ(launched_with({{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "n1"}}), std::nullopt);
  EXPECT_EQ(launched_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}),
            std::nullopt);
  for (const char* step : {"4294967291", "4294967290"}) {  // a batch script, an interactive shell
    Variables variables = kSlurm;
    variables["SLURM_STEP_ID"] = step;
    EXPECT_EQ(launched_with(variables), std::nullopt) << step;
  }
}

TEST(LaunchedRanks, ReadsTorchrun) {
  const LaunchedRank expected{"torchrun", 5, 8, 1, 4, "n1", 29500};
  EXPECT_EQ(launched_with(kTorchrun), expected);
}

TEST(LaunchedRanks, LeavesThePortToTorchrunWhereItListensItself) {
  Variables variables = kTorchrun;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(launched_with(variables)->port, 29501);
  variables["MASTER_PORT"] = "65535";
  EXPECT_EQ(launched_with(variables)->port, 65534);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(launched_with(variables)->port, 65535);
}

TEST(LaunchedRanks, ReadsOpenMpi) {
  LaunchedRank expected{"Open MPI", 3, 4, 1, 2, "", 0};
  EXPECT_EQ(launched_with(kOpenMpi), expected);
  Variables variables = kOpenMpi;
  variables["MASTER_ADDR"] = "10.0.0.1";
  variables["MASTER_PORT"] = "4000";
  expected.address = "10.0.0.1";
  expected.port = 4000;
  EXPECT_EQ(launched_with(variables), expected);
}

TEST(LaunchedRanks, ReadsSlurm) {
  const LaunchedRank expected{"Slurm", 9, 11, 1, 3, "node03", 10000 + (1251 * 16 + 2) % 20000};
  EXPECT_EQ(launched_with(kSlurm), expected);
}

TEST(LaunchedRanks, ReadsOtherVariablesOfSlurmWhereTheFirstAreNotSet) {
  Variables variables = kSlurm;
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_STEP_NODELIST"})
    variables.erase(name);
  variables["SLURM_NTASKS_PER_NODE"] = "4";
  variables["SLURM_STEP_NUM_TASKS"] = "10";
  EXPECT_EQ(launched_with(variables)->address, "login");
  EXPECT_EQ(launched_with(variables)->local_ranks, 4);
  EXPECT_EQ(launched_with(variables)->ranks, 10);
  variables["MASTER_ADDR"] = "::1";
  variables["MASTER_PORT"] = "1";
  variables.erase("SLURM_JOB_NODELIST");
  variables.erase("SLURM_JOB_ID");
  EXPECT_EQ(launched_with(variables)->address, "::1");
  EXPECT_EQ(launched_with(variables)->port, 1);
}

TEST(LaunchedRanks, TheInnermostLauncherDecides) {
  Variables all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launched_with(all)->launcher, "Open MPI");
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(launched_with(all)->launcher, "torchrun");
}

TEST(LaunchedRanks, EachVariableThatIsMissingIsNamed) {
  const auto said = [](const std::string& name, const std::string& sign, const std::string& launcher) {
    return name + " is not set; it is needed beside " + sign + ", which says that " + launcher +
           " has started this process";
  };
  for (const auto& [name, value] : kTorchrun) {
    if (name == "RANK") continue;
    EXPECT_EQ(refusal_of(kTorchrun, {}, name), said(name, "RANK", "torchrun"));
  }
  for (const auto& [name, value] : kOpenMpi) {
    if (name == "OMPI_COMM_WORLD_RANK") continue;
    EXPECT_EQ(refusal_of(kOpenMpi, {}, name), said(name, "OMPI_COMM_WORLD_RANK", "Open MPI"));
  }
  for (const char* name : {"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID"})
    EXPECT_EQ(refusal_of(kSlurm, {}, name), said(name, "SLURM_PROCID", "Slurm"));
}

TEST(LaunchedRanks, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(refusal_of(kTorchrun, {{"RANK", "8"}}),
            "RANK is \"8\"; a whole number from 0 to 7 is allowed (8 ranks, as torchrun says)");
  EXPECT_EQ(refusal_of(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}),
            "LOCAL_WORLD_SIZE is \"9\"; a whole number from 1 to 8 is allowed (8 ranks on all hosts, as "
            "torchrun says)");
  EXPECT_EQ(refusal_of(kTorchrun, {{"MASTER_PORT", "65536"}}),
            "MASTER_PORT is \"65536\"; a whole number from 1 to 65535 is allowed");
  EXPECT_EQ(refusal_of(kTorchrun, {{"MASTER_ADDR", ""}}),
            "MASTER_ADDR is \"\"; the name or address of a host is allowed");
  EXPECT_EQ(
      refusal_of(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "-1"}}),
      "OMPI_COMM_WORLD_LOCAL_RANK is \"-1\"; a whole number from 0 to 1 is allowed (2 ranks on this host, as "
      "Open MPI says)");
  EXPECT_EQ(refusal_of(kSlurm, {{"SLURM_NODEID", "3"}}),
            "SLURM_NODEID is \"3\"; a whole number from 0 to 2 is allowed (3 nodes, as Slurm says)");
  EXPECT_EQ(refusal_of(kSlurm, {{"SLURM_NTASKS", "0"}}),
            "SLURM_NTASKS is \"0\"; a whole number from 1 to 1000000 is allowed");
}

TEST(LaunchedRanks, WhatIsNoNumberIsRefused) {
  for (const char* text : {"", "two", "1x", " 1", "1.5", "+1", "99999999999999999999"}) {
    EXPECT_EQ(refusal_of(kTorchrun, {{"LOCAL_RANK", text}}),
              std::string("LOCAL_RANK is \"") + text +
                  "\"; a whole number from 0 to 3 is allowed (4 ranks on this host, as torchrun says)");
  }
}

TEST(SlurmLists, TheFirstHostOfAList) {
  const auto first = [](const char* list) { return first_slurm_host("HOSTS", list); };
  EXPECT_EQ(first("login"), "login");
  EXPECT_EQ(first("login,node[1-3]"), "login");
  EXPECT_EQ(first("node[03-05,9],login"), "node03");
  EXPECT_EQ(first("gpu-a[007]"), "gpu-a007");
  EXPECT_EQ(first("rack[1-2]n[4-5].site"), "rack1n4.site");
}

TEST(SlurmLists, TaskCounts) {
  EXPECT_THAT(slurm_task_counts("TASKS", "4"), ElementsAre(4));
  EXPECT_THAT(slurm_task_counts("TASKS", "4(x2),3,1(x1)"), ElementsAre(4, 4, 3, 1));
}

TEST(SlurmLists, MalformedOnesAreRefused) {
  for (const char* list : {"", ",a", "n[", "n[]", "n[1", "n]1", "n[a-b]", "n[1-]", "n[1,]", "a b"}) {
    EXPECT_EQ(refusal([&] { (void)first_slurm_host("HOSTS", list); }),
              std::string("HOSTS is \"") + list +
                  "\"; hosts like \"login\" or \"node[03-05,9],login\" are allowed");
  }
  for (const char* list : {"", "0", "4,", "4(x", "4(x)", "4(x0)", "4(2)", "x4", "4(x2)3", "1(x9999999)"}) {
    EXPECT_EQ(refusal([&] { (void)slurm_task_counts("TASKS", list); }),
              std::string("TASKS is \"") + list +
                  "\"; numbers of tasks a node like \"4\" or \"4(x2),3\" are allowed");
  }
}

}  // namespace
}  // namespace pipesim

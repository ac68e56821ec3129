#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr std::int64_t kMemory = 16'000'000'000;  // of each device of p100-4x4

std::vector<std::string> words(const std::string& command, const std::string& margin,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{command, "--model",
                               "gpt:batch=8,layers=2,hidden=64,heads=4,sequence=16,vocab=100", "--topology",
                               "p100-4x4:1"};
  if (!margin.empty()) all.insert(all.end(), {"--memory-margin", margin});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The margin that leaves so many bytes.
std::string leaving(std::int64_t bytes) { return fmt::format("{} B", kMemory - bytes); }

std::int64_t peak(const Json& report) {
  std::int64_t most = 0;
  for (const auto& [device, bytes] : report.at("peak_memory_bytes").items())
    most = std::max(most, bytes.get<std::int64_t>());
  return most;
}

Json json_of(std::vector<std::string> args) {
  args.emplace_back("--json");
  const Outcome found = pipesim_run(args);
  return found.out.empty() ? Json{{"error", found.err}} : Json::parse(found.out);
}

TEST(MemoryMarginOption, SimulateJudgesToTheByte) {
  const std::vector<std::string> plan{"--baseline", "data-parallel"};
  const Json whole = json_of(words("simulate", "", plan));
  EXPECT_TRUE(whole["fits"].get<bool>());
  EXPECT_FALSE(whole.contains("memory_margin_bytes"));
  const Json just = json_of(words("simulate", leaving(peak(whole)), plan));
  EXPECT_TRUE(just["fits"].get<bool>());
  EXPECT_EQ(just["memory_margin_bytes"]["gpu3"], kMemory - peak(whole));
  EXPECT_EQ(just["iteration_time_s"], whole["iteration_time_s"]);
  const Json over = json_of(words("simulate", leaving(peak(whole) - 1), plan));
  EXPECT_FALSE(over["fits"].get<bool>());
  EXPECT_THAT(over["infeasible"].get<std::string>(), HasSubstr("has 16 GB less a margin of 16 GB"));

  const Outcome fits = pipesim_run(words("simulate", "12.5%", plan));
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("12.5 % of every device's memory must stay free: the plan fits\n"));
  const Outcome full = pipesim_run(words("simulate", "15999 MB", plan));
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.out, AllOf(HasSubstr("15.999 GB of every device's memory must stay free\n"),
                              HasSubstr("does not fit   gpu0 needs ")));
  EXPECT_THAT(full.err, HasSubstr("pipesim: the plan does not fit: gpu0 needs "));
}

SLOW_TEST(MemoryMarginOption, NoPlannerOffersForFeasibleWhatLeavesTooLittle) {
  for (const char* algorithm : {"gpipe", "pipedream", "dapple", "alpa", "auto"}) {
    std::vector<std::string> more{"--algorithm", algorithm, "--microbatches", "4"};
    if (std::string(algorithm) == "auto") more.insert(more.end(), {"--proposals", "20"});
    const Json whole = json_of(words("search", "", more));
    for (const std::int64_t left : {peak(whole) - 1, std::int64_t{1'500'000}}) {
      SCOPED_TRACE(fmt::format("{}, {} bytes left", algorithm, left));
      const Json found = json_of(words("search", leaving(left), more));
      if (found.contains("error")) {
        EXPECT_THAT(found["error"].get<std::string>(), HasSubstr("no pipeline of the model fits"));
        continue;
      }
      EXPECT_EQ(found["fits"].get<bool>(), peak(found) <= left);
    }
  }
}

TEST(MemoryMarginOption, SearchesKeepToIt) {
  const std::vector<std::string> mcmc{"--algorithm", "mcmc", "--proposals", "200"};
  const Json whole = json_of(words("search", "", mcmc));
  const Json found = json_of(words("search", leaving(peak(whole) - 1), mcmc));
  EXPECT_TRUE(found["fits"].get<bool>());
  EXPECT_LT(peak(found), peak(whole));
  const Outcome none = pipesim_run(words("search", leaving(1'000), mcmc));
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("all 4 devices together have 4 kB beside the margin"));
  const std::vector<std::string> exhaustive{"search",     "--model",     "lenet",
                                            "--topology", "p100-4x4:1",  "--algorithm",
                                            "exhaustive", "--proposals", "300"};
  const Json proven = json_of(exhaustive);
  std::vector<std::string> tight = exhaustive;
  tight.insert(tight.end(), {"--memory-margin", leaving(peak(proven) - 1)});
  EXPECT_LT(peak(json_of(tight)), peak(proven));
}

TEST(MemoryMarginOption, CompareAndExecuteTellTheVerdict) {
  const Json compared = json_of(words("compare", "15995 MB"));
  for (const Json& row : compared["baselines"]) EXPECT_EQ(row["fits"].get<bool>(), peak(row) <= 5'000'000);
  const std::vector<std::string> run{"execute",    "--model",       "lenet:batch=4",  "--topology", "cpu:1",
                                     "--baseline", "data-parallel", "--backend",      "emulated",   "--steps",
                                     "1",          "--json",        "--memory-margin"};
  const auto executed = [&](const std::string& margin) {
    std::vector<std::string> args = run;
    args.push_back(margin);
    const Outcome found = pipesim_run(args);
    EXPECT_EQ(found.status, 0) << found.err;
    return Json::parse(found.out);
  };
  EXPECT_TRUE(executed("10%")["fits"].get<bool>());
  const Json full = executed("99.99999 %");
  EXPECT_FALSE(full["fits"].get<bool>());
  EXPECT_EQ(full["memory_margin"], "99.99999 %");
  EXPECT_THAT(full["infeasible"].get<std::string>(), HasSubstr("less a margin of 8 GB"));
}

SLOW_TEST(MemoryMarginOption, ACheckpointsIsTheSame) {
  const TemporaryFolder folder;
  const std::string file = folder.path("checkpoint");
  const auto search = [&](const std::string& margin, const std::vector<std::string>& more) {
    return pipesim_run(words("search", margin, more));
  };
  const std::vector<std::string> resume{"--proposals", "200", "--resume", file};
  ASSERT_EQ(search("10%", {"--proposals", "100", "--checkpoint", file}).status, 0);
  EXPECT_EQ(search("10 %", resume).status, 0);
  EXPECT_THAT(
      search("20%", resume).err,
      HasSubstr("/subject/memory_margin: the checkpoint is of another search: found \"10 %\", this one "
                "has \"20 %\""));
  EXPECT_THAT(search("", resume).err, HasSubstr("found \"10 %\", this one has none"));
}

TEST(MemoryMarginOption, RefusesWhatCanNotBe) {
  const std::vector<std::string> plan{"--baseline", "data-parallel"};
  for (const char* margin : {"0.1", "10", "100%", "-5%", "2 GB/s", "0 B", "all"}) {
    const Outcome bad = pipesim_run(words("simulate", margin, plan));
    EXPECT_EQ(bad.status, 2);
    EXPECT_EQ(bad.err,
              fmt::format("pipesim: --memory-margin: found \"{}\", allowed: a share of each device's "
                          "memory from 0% to below 100%, or a size such as 2 GB\n",
                          margin));
  }
  const Outcome large = pipesim_run(words("simulate", "16 GB", plan));
  EXPECT_EQ(large.status, 1);
  EXPECT_EQ(large.err,
            "pipesim: --memory-margin: a margin of 16 GB leaves nothing of the 16 GB of device \"gpu0\"\n");
}

}  // namespace
}  // namespace pipesim

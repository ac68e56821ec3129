#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

double json_number(const std::vector<std::string>& args, const char* key) {
  const Outcome result = pipesim_run(args);
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out)[key].get<double>();
}

TEST(MicrobatchOptions, SamplesOfAllMicrobatchesAreCounted) {
  const std::vector<std::string> once{"simulate",   "--model",    "lenet:batch=16", "--topology",
                                      "p100-4x4:1", "--baseline", "data-parallel",  "--json"};
  std::vector<std::string> several = once;
  several.insert(several.end(), {"--microbatches", "4"});
  const double one = json_number(once, "iteration_time_s"), four = json_number(several, "iteration_time_s");
  EXPECT_GT(four, 2 * one);
  EXPECT_LE(four, 4 * one);
  EXPECT_DOUBLE_EQ(json_number(once, "throughput_samples_per_s"), 16 / one);
  EXPECT_DOUBLE_EQ(json_number(several, "throughput_samples_per_s"), 64 / four);
}

TEST(MicrobatchOptions, SearchWritesThemIntoThePlan) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const Outcome found = pipesim_run({"search", "--algorithm", "mcmc", "--model", "lenet", "--topology",
                                     "p100-4x4:1", "--proposals", "100", "--microbatches", "3", "-o", plan});
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("batch 192 in 3 microbatches of 64"));
  EXPECT_EQ(Json::parse(read_file(plan))["microbatches"], 3);
  const Outcome simulated = pipesim_run(
      {"simulate", "--plan", plan, "--trace", folder.path("trace.json"), "--dot", folder.path("tasks.dot")});
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_THAT(simulated.out, HasSubstr("batch 192 in 3 microbatches of 64"));
  EXPECT_THAT(read_file(folder.path("tasks.dot")), HasSubstr("end of step 2, of microbatch 2"));
  const Outcome why = pipesim_run({"simulate", "--plan", plan, "--explain", "conv1 forward of microbatch 2"});
  EXPECT_THAT(why.out, HasSubstr("conv1 forward of microbatch 2 on gpu"));
}

TEST(MicrobatchOptions, ExecuteComputesWhatTheUnsplitModelDoes) {
  const Outcome result = pipesim_run({"execute", "--model", "lenet:batch=4", "--topology", "cpu:2",
                                      "--baseline", "data-parallel", "--microbatches", "3", "--steps", "2",
                                      "--warmup", "0", "--no-realtime", "--oversubscribe", "--check"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("batch 12 in 3 microbatches of 4"));
  EXPECT_THAT(result.out, HasSubstr("step 2: "));
  EXPECT_THAT(result.out, Not(HasSubstr("NOT EQUAL")));
}

TEST(MicrobatchOptions, AreRefusedWhereTheyDoNotFit) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  const std::vector<std::pair<std::vector<std::string>, std::string>> refusals{
      {{"simulate", "--plan", plan, "--microbatches", "2"}, "--plan and --microbatches exclude each other"},
      {{"search", "--model", "lenet", "--topology", "p100-4x4:1", "--algorithm", "exhaustive",
        "--microbatches", "2", "--seed", "3"},
       "--seed does not go with --algorithm exhaustive"},
      {{"compare", "--model", "lenet", "--topology", "p100-4x4:1", "--microbatches", "0"}, "--microbatches"},
      {{"compare", "--model", "lenet", "--topology", "p100-4x4:1", "--microbatches", "1048577"},
       "--microbatches"}};
  for (const auto& [args, message] : refusals) {
    const Outcome result = pipesim_run(args);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

std::string batch_line(const std::vector<std::string>& more) {
  std::vector<std::string> args{"simulate",   "--model",    "lenet:batch=16", "--topology",
                                "p100-4x4:1", "--baseline", "data-parallel"};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome result = pipesim_run(args);
  return result.status == 0 ? result.out.substr(0, result.out.find('\n')) : result.err;
}

TEST(MicrobatchOptions, BatchAndSizeTellTheNumber) {
  EXPECT_THAT(batch_line({"--batch", "64"}), HasSubstr("batch 64"));
  EXPECT_THAT(batch_line({"--batch", "64", "--microbatches", "4"}),
              HasSubstr("batch 64 in 4 microbatches of 16"));
  EXPECT_THAT(batch_line({"--batch", "64", "--microbatch", "8"}),
              HasSubstr("batch 64 in 8 microbatches of 8"));
  EXPECT_THAT(batch_line({"--microbatch", "8", "--microbatches", "4"}),
              HasSubstr("batch 32 in 4 microbatches of 8"));
  EXPECT_THAT(batch_line({"--batch", "64", "--microbatch", "7"}),
              HasSubstr("--batch 64 is no multiple of --microbatch 7"));
  EXPECT_THAT(batch_line({"--batch", "10", "--microbatches", "4"}),
              HasSubstr("--batch 10 is no multiple of --microbatches 4"));
  EXPECT_THAT(batch_line({"--batch", "64", "--microbatch", "8", "--microbatches", "8"}),
              HasSubstr("two of them tell the third"));
  EXPECT_THAT(batch_line({"--batch", "4096", "--microbatch", "1"}),
              HasSubstr("batch 4096 in 4096 microbatches of 1"));
  EXPECT_THAT(batch_line({"--profile-batch", "8"}), HasSubstr("is no profile (FILE.txt)"));
}

}  // namespace
}  // namespace pipesim

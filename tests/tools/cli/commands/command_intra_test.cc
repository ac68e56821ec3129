#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kIntraGpt{"--model", "gpt:batch=16,layers=4,hidden=256,heads=8", "--topology",
                                         "p100-4x4:2"};

std::vector<std::string> of_small_gpt(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), kIntraGpt.begin(), kIntraGpt.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(IntraCommand, FindsSplitsWithACertificate) {
  const Outcome found = pipesim_run(of_small_gpt({"search", "--algorithm", "intra"}, {}));
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("proven to be the least of all choices"));
  const auto json =
      nlohmann::json::parse(pipesim_run(of_small_gpt({"search", "--algorithm", "intra"}, {"--json"})).out);
  const Outcome baseline = pipesim_run(of_small_gpt({"simulate", "--baseline", "data-parallel"}, {"--json"}));
  EXPECT_GT(json["objective"]["value"], 0);
  EXPECT_LE(json["iteration_time_s"].get<double>(),
            nlohmann::json::parse(baseline.out)["iteration_time_s"].get<double>() * 1.01);
}

SLOW_TEST(IntraCommand, ExportsInstancesThatSolversRead) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("p.plan.json"), out = folder.path("out");
  ASSERT_EQ(pipesim_run(of_small_gpt({"simulate", "--baseline", "data-parallel"}, {"-o", plan})).status, 0);
  const Outcome made = pipesim_run({"export", "--plan", plan, "--to", "instance", "-o", out});
  EXPECT_EQ(made.status, 0) << made.err;
  const Outcome solved = pipesim_run({"solve", out + "/instance.json", "--json", "--rounds", "50"});
  EXPECT_EQ(solved.status, 0) << solved.err;
  const auto answer = nlohmann::json::parse(solved.out)["instances"][0];
  EXPECT_EQ(answer["cost"], answer["bound"]) << solved.out;
  EXPECT_THAT(pipesim_run({"export", "--plan", plan, "--to", "instance", "-o", out}).err,
              HasSubstr("is there already; --force replaces it"));
  EXPECT_THAT(pipesim_run({"export", "--plan", plan, "--to", "instances", "-o", out}).err,
              HasSubstr("instance"));
}

}  // namespace
}  // namespace pipesim

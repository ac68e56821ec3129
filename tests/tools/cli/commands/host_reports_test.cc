// What simulate says of hosts, and of what predictions rest on.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

std::vector<std::string> words(const std::string& runtime, std::vector<std::string> more = {}) {
  std::vector<std::string> all{
      "simulate",     "--model",  "gpt:layers=4,hidden=256,heads=8,vocab=1024,sequence=128,dtype=bfloat16",
      "--topology",   "dgx-a100", "--recipe",
      "tp2,dp4,mbs1", "--batch",  "32",
      "--runtime",    runtime};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

double host_share(const std::string& runtime) {
  const Json path = Json::parse(pipesim_run(words(runtime, {"--json"})).out)["critical_path"];
  const double host = path["host"];
  EXPECT_NEAR(path["compute"].get<double>() + host + path["communication"].get<double>() +
                  path["waiting"].get<double>(),
              1, 1e-9);
  return host;
}

TEST(HostReports, LaunchesAreOnTheCriticalPathWhereKernelsAreSmall) {
  EXPECT_EQ(host_share("pipesim"), 0);
  const double megatron = host_share("megatron"), graph = host_share("cuda-graph");
  EXPECT_GT(megatron, 0.8);
  EXPECT_LT(graph, megatron);
  EXPECT_THAT(pipesim_run(words("megatron")).out, HasSubstr(" % host, "));
  EXPECT_THAT(pipesim_run(words("pipesim")).out, Not(HasSubstr("host")));
}

TEST(HostReports, PredictionsFromPublishedFiguresSayThatTheyAreUncalibrated) {
  EXPECT_THAT(pipesim_run(words("pipesim")).out, HasSubstr("  durations      uncalibrated, from published"));
  EXPECT_EQ(Json::parse(pipesim_run(words("pipesim", {"--json"})).out)["uncalibrated"], true);
}

}  // namespace
}  // namespace pipesim

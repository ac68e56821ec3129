#include "search/alpa/stage_costs_json.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

std::string file_with(const std::string& entries, const std::string& more = "") {
  return R"({"L": 2, "D": 3, "B": 4, "submesh": [[1, 1], [1, 2]], "entries": [)" + entries + "]" + more + "}";
}
std::string refused_costs(const std::string& text) {
  return refusal([&] { read_stage_costs(text, "costs.json"); });
}

TEST(StageCosts, AreRead) {
  const StageCosts costs = read_stage_costs(
      file_with("[0, 0, 0, 0, 0.5, 7], [1, 1, 1, 2, 0.25, 0], [0, 1, 1, 0, 9, -1]", R"(, "kind": "gpt")"),
      "costs.json");
  EXPECT_EQ(costs.problem.layers, 2);
  EXPECT_EQ(costs.problem.devices, 3);
  EXPECT_EQ(costs.problem.microbatches, 4);
  ASSERT_EQ(costs.problem.options.size(), 2);  // the third does not fit by itself
  EXPECT_EQ(costs.problem.options[1].devices, 2);
  EXPECT_EQ(costs.problem.options[1].config, 2);
  EXPECT_EQ(partition_stages(costs.problem)->total.value, 0.75 + 3 * 0.5);
}

TEST(StageCosts, TakeAnyNumberOfSuccessors) {
  const StageCosts costs =
      read_stage_costs(file_with("[0, 1, 0, 0, 1.0, 0], [0, 0, 0, 0, 0.5, 9223372036854775807], "
                                 "[1, 1, 1, 0, 0.5, 9223372036854775807]"),
                       "costs.json");
  EXPECT_EQ(partition_stages(costs.problem)->stages.size(), 2);
}

TEST(StageCosts, SayWhatIsWrong) {
  EXPECT_EQ(refused_costs(file_with("[0, 0, 0, 0, 0.5, 7]")),
            "costs.json: /entries: no entry has layer 1 of 0 to 1");
  EXPECT_THAT(refused_costs(file_with("[0, 0, 0, 0, 0.5]")),
              testing::StartsWith("costs.json: /entries/0: found 5 numbers, allowed: first layer"));
  EXPECT_THAT(refused_costs(file_with("[0, 2, 0, 0, 0.5, 7]")),
              testing::StartsWith("costs.json: /entries/0/1: "));
  EXPECT_THAT(refused_costs(file_with("[1, 0, 0, 0, 0.5, 7]")),
              testing::StartsWith("costs.json: /entries/0/1: "));
  EXPECT_THAT(refused_costs(file_with("[0, 1, 2, 0, 0.5, 7]")),
              testing::StartsWith("costs.json: /entries/0/2: "));
  EXPECT_THAT(refused_costs(file_with("[0, 1, 1, 0, -0.5, 7]")),
              testing::StartsWith("costs.json: /entries/0/4: "));
  EXPECT_THAT(refused_costs(file_with("", R"(, "submeshes": 1)")),
              testing::HasSubstr("did you mean \"submesh\""));
  EXPECT_EQ(
      refused_costs(
          R"({"L": 10000, "D": 1048576, "B": 4, "submesh": [[1, 1]], "entries": [[0, 9999, 0, 0, 1, 0]]})"),
      "costs.json: /: 10000 layers on 1048576 devices are more than can be planned for");
  EXPECT_THAT(refused_costs("{}"), testing::HasSubstr("\"L\""));
  EXPECT_THAT(refused_costs("{"), testing::StartsWith("costs.json:"));
}

}  // namespace
}  // namespace pipesim

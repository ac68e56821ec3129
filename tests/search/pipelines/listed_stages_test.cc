#include "search/pipelines/listed_stages.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/base/rng.h"
#include "taskgraph/plan/plan.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using Stages = std::vector<ListedStage>;

TEST(StageList, IsReadAndRefused) {
  EXPECT_EQ(parse_stage_list("8@layer12.ffn_add,8"), (Stages{{8, "layer12.ffn_add"}, {8, ""}}));
  EXPECT_EQ(parse_stage_list("1,2,13"), (Stages{{1, ""}, {2, ""}, {13, ""}}));
  EXPECT_EQ(parse_stage_list("4x2@fc1,1x3,3"), (Stages{{8, "fc1", 4}, {3, "", 1}, {3, ""}}));
  EXPECT_EQ(parse_stage_list("8@node7 LSTM(2048, 1024),8"), (Stages{{8, "node7 LSTM(2048, 1024)"}, {8, ""}}));
  EXPECT_EQ(parse_stage_list("2x4@a([1, 2], {3, 4}),1@\"x, (y\",1@z) ,2"),
            (Stages{{8, "a([1, 2], {3, 4})", 2}, {1, "x, (y"}, {1, "z) "}, {2, ""}}));
  EXPECT_EQ(refusal([] { (void)parse_stage_list("8@LSTM(2048, 1024,8"); }),
            "found \"8@LSTM(2048, 1024,8\", in which a bracket is not closed; allowed: names with closed "
            "brackets, or in quotes");
  EXPECT_EQ(refusal([] { (void)parse_stage_list("8@\"a,8"); }),
            "found \"8@\"a,8\", in which a quote is not closed; allowed: names with closed brackets, or in "
            "quotes");
  for (const auto& [text, part] :
       {std::pair("", ""), std::pair("8,,8", ""), std::pair("8,", ""), std::pair("x,8", "x"),
        std::pair("8@,8", "8@"), std::pair("0,8", "0"), std::pair("-1,8", "-1"), std::pair("8.5,8", "8.5"),
        std::pair("8:8", "8:8"), std::pair("8, 8", " 8"), std::pair("100001,1", "100001"),
        std::pair("2x,1", "2x"), std::pair("x2,1", "x2"), std::pair("2x0,1", "2x0"),
        std::pair("1,2x2x2", "2x2x2")}) {
    EXPECT_EQ(refusal([text = text] { (void)parse_stage_list(text); }),
              std::string("found \"") + part + "\" in \"" + text +
                  "\", allowed: DEVICES or DEVICES@LAST_OPERATOR of each stage, such as 8@layer12.ffn_add,8, "
                  "or REPLICASxDEVICES, such as 4x2, for replicas that take microbatches in turn");
  }
  EXPECT_EQ(refusal([] { (void)parse_stage_list("8,8@fc2"); }),
            "found \"@fc2\" at the last stage of \"8,8@fc2\", which ends with the model: leave it out");
}

OperatorGraph chain_of(std::int32_t operators) {
  GraphBuilder b("chain", 4);
  TensorId x = b.data("x", {4, 8});
  for (std::int32_t i = 0; i < operators; ++i)
    x = b.add("linear", "fc" + std::to_string(i), {x}, {{"out", std::vector<std::int64_t>{8}}});
  return b.build();
}

// Each replica is split over its own devices, and does what the first does.
TEST(StageList, OfReplicasHasCopiesOfTheFirst) {
  const OperatorGraph graph = chain_of(3);
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const PipelinedStrategy made = listed_stages(graph, costs, parse_stage_list("3x2@fc0,2"), "pipedream");
  EXPECT_EQ(made.pipeline, (Pipeline{"pipedream", {0, 1, 1}, {3, 1}}));
  PlanOptions options;
  options.pipeline = made.pipeline;
  ASSERT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt);
  EXPECT_EQ(made.strategy[0].str(graph.operators()[0]), "b/2 x3 copies on 6 devices from 0");
  EXPECT_EQ(made.strategy[1].str(graph.operators()[1]), "b/2 on 2 devices from 6");
  for (std::int32_t way = 0; way < 3; ++way) {
    const ParallelConfig config = configs_of_way(made.strategy, made.pipeline, way, 8)[0];
    EXPECT_EQ(config.replicas, 1);
    EXPECT_THAT(config.devices, ElementsAre(DeviceId(2 * way), DeviceId(2 * way + 1)));
  }
}

double longest(const std::vector<double>& seconds, const Stages& stages,
               const std::vector<std::int32_t>& ends) {
  double most = 0;
  std::int32_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double sum = 0;
    for (; next <= ends[s]; ++next) sum += seconds[static_cast<std::size_t>(next)];
    most = std::max(most, sum / static_cast<double>(stages[s].devices));
  }
  return most;
}

// Three stages, of which one end may be given: against all cuts.
TEST(StageList, IsCutWhereTheLongestStageIsShortest) {
  constexpr std::int32_t kOperators = 9;
  const OperatorGraph graph = chain_of(kOperators);
  for_each_seed(40, [&](Rng& rng) {
    std::vector<double> seconds;
    for (std::int32_t i = 0; i < kOperators; ++i) seconds.push_back(static_cast<double>(rng.below(10)));
    Stages stages;
    for (int s = 0; s < 3; ++s) stages.push_back({static_cast<std::int64_t>(1 + rng.below(4)), ""});
    const auto fixed = static_cast<std::int32_t>(1 + rng.below(kOperators - 3));
    if (rng.below(2) == 0) stages[1].last = "fc" + std::to_string(fixed);
    double least = std::numeric_limits<double>::infinity();
    double least_before = least;  // of what stands before the end that is given
    for (std::int32_t a = 0; a < kOperators - 2; ++a) {
      for (std::int32_t b = a + 1; b < kOperators - 1; ++b) {
        if (!stages[1].last.empty() && b != fixed) continue;
        least = std::min(least, longest(seconds, stages, {a, b, kOperators - 1}));
        least_before = std::min(least_before, longest(seconds, {stages[0], stages[1]}, {a, b}));
      }
    }
    const std::vector<std::int32_t> ends = last_operators(graph, seconds, stages);
    ASSERT_EQ(ends.size(), 3u);
    EXPECT_EQ(ends.back(), kOperators - 1);
    EXPECT_TRUE(ends[0] >= 0 && ends[0] < ends[1] && ends[1] < ends[2]);
    EXPECT_NEAR(longest(seconds, stages, ends), least, 1e-9)
        << testing::PrintToString(seconds) << testing::PrintToString(ends);
    if (stages[1].last.empty()) return;
    EXPECT_EQ(ends[1], fixed);
    EXPECT_NEAR(longest(seconds, {stages[0], stages[1]}, {ends[0], ends[1]}), least_before, 1e-9);
  });
}

TEST(StageList, EndsAreOfTheModelAndInItsOrder) {
  const OperatorGraph graph = chain_of(4);
  const std::vector<double> seconds(4, 1.0);
  EXPECT_THAT(last_operators(graph, seconds, {{1, "fc0"}, {1, "fc2"}, {1, ""}}), ElementsAre(0, 2, 3));
  EXPECT_THAT(last_operators(graph, seconds, {{3, ""}, {1, ""}}), ElementsAre(2, 3));
  const auto why = [&](const Stages& stages) {
    return refusal([&] { (void)last_operators(graph, seconds, stages); });
  };
  EXPECT_EQ(why({{1, "fc9"}, {1, ""}}), "model \"chain\" has no operator \"fc9\" (did you mean \"fc0\"?)");
  EXPECT_EQ(why({{1, "fc2"}, {1, "fc1"}, {1, ""}}),
            "stage 1 ends with \"fc1\", which does not come behind \"fc2\", the end of stage 0");
  EXPECT_EQ(why({{1, ""}, {1, "fc0"}, {1, ""}}), "stages 0 to 1 have 1 operator to share, 2 are needed");
  EXPECT_EQ(why({{1, "fc3"}, {1, ""}}), "nothing is left for stage 1: \"fc3\" is the model's last operator");
  EXPECT_EQ(why(Stages(5)), "stages 0 to 4 have 4 operators to share, 5 are needed");
}

TEST(StageList, IsAPlan) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=12,layers=4,hidden=64,heads=4,sequence=16,vocab=100");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  const PipelinedStrategy made = listed_stages(graph, costs, {{3, "layer3.ffn_add"}, {1, ""}}, "1f1b");
  PlanOptions options;
  options.microbatches = 4;
  options.pipeline = made.pipeline;
  EXPECT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt);
  for (std::size_t i = 0; i + 1 < graph.operators().size(); ++i) {
    const bool end = graph.operators()[i].name == "layer3.ffn_add";
    EXPECT_EQ(made.pipeline.stage_of[i + 1] - made.pipeline.stage_of[i], end ? 1 : 0);
    const bool first = made.pipeline.stage_of[i] == 0;
    EXPECT_EQ(made.strategy[i].devices.size(), first ? 3u : 1u) << graph.operators()[i].name;
  }
  EXPECT_EQ(refusal([&] {
              (void)stage_devices(topology, {{3, ""}, {2, ""}});
            }),
            "stages of 5 devices together, topology \"p100-4x4:1\" has 4");
}

}  // namespace
}  // namespace pipesim

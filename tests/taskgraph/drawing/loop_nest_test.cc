#include "taskgraph/drawing/loop_nest.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "taskgraph/binding/bound_operator.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using LoopSizes = std::vector<std::int64_t>;

OperatorGraph linear_with_bias() {
  GraphBuilder b("one", 64);
  const TensorId x = b.add("linear", "fc0", {b.data("in", {64, 12})}, {{"out", LoopSizes{12}}});
  b.add("linear", "fc", {x}, {{"out", LoopSizes{32}}});
  return b.build();
}

std::string loops_of(const OperatorGraph& graph, std::size_t op, const std::string& split) {
  const Operator& o = graph.operators()[op];
  return text_of(loop_nest(graph, o, parse_split(o, split)), "");
}

TEST(LoopNest, OfALinearOperator) {
  const OperatorGraph graph = linear_with_bias();
  EXPECT_EQ(loops_of(graph, 1, "b/2 o/4"),
            "for b0 in parallel(2):\n"
            "  for o0 in parallel(4):\n"
            "    # on device b0 * 4 + o0\n"
            "    for b1, o1 in grid(32, 8):\n"
            "      b = b0 * 32 + b1\n"
            "      o = o0 * 8 + o1\n"
            "      for i in reduce(12):\n"
            "        fc[b, o] += fc0[b, i] * fc.w[i, o]\n"
            "      fc[b, o] += fc.b[o]\n");
}

TEST(LoopNest, SaysWhatDevicesShare) {
  const OperatorGraph graph = linear_with_bias();
  const Operator& op = graph.operators()[1];
  const LoopNest nest = loop_nest(graph, op, parse_split(op, "b/2, o/4, x3 copies"));
  const auto found = [&](SplitTraffic::When when, SplitTraffic::What what, const std::string& tensor) {
    return std::ranges::find_if(nest.traffic, [&](const SplitTraffic& t) {
      return t.when == when && t.what == what && t.tensor == tensor;
    });
  };
  using When = SplitTraffic::When;
  using What = SplitTraffic::What;
  const auto input = found(When::Forward, What::Copies, "fc0");
  ASSERT_NE(input, nest.traffic.end());
  EXPECT_THAT(input->over, ElementsAre("copy", "o0"));
  EXPECT_EQ(input->members, 12);
  EXPECT_EQ(input->groups, 2);
  EXPECT_EQ(input->size, Bytes(32 * 12 * 4));
  const auto gradient = found(When::Backward, What::Addends, "fc0");
  ASSERT_NE(gradient, nest.traffic.end());
  EXPECT_THAT(gradient->over, ElementsAre("o0"));
  EXPECT_EQ(gradient->members, 4);
  EXPECT_EQ(gradient->groups, 6);
  const auto weight = found(When::Update, What::Addends, "fc.w");
  ASSERT_NE(weight, nest.traffic.end());
  EXPECT_THAT(weight->over, ElementsAre("b0"));
  EXPECT_EQ(weight->size, Bytes(12 * 8 * 4));
  EXPECT_EQ(found(When::Forward, What::Addends, "fc"), nest.traffic.end());
  const LoopNest reduced = loop_nest(graph, op, parse_split(op, "i/3"));
  EXPECT_EQ(reduced.traffic.front().what, What::Addends);
  EXPECT_EQ(reduced.traffic.front().tensor, "fc");
  EXPECT_THAT(reduced.after, ElementsAre("if i0 == 0: fc[b, o] += fc.b[o]"));
  EXPECT_THAT(reduced.reduced_indices, ElementsAre("i = i0 * 4 + i1"));
}

TEST(LoopNest, OfWindowsMergedDimensionsAndUnevenParts) {
  const OperatorGraph lenet = make_zoo_model("lenet:batch=8");
  EXPECT_THAT(loops_of(lenet, 0, "h/3"), HasSubstr("for n, o, h1, w in grid(8, 6, 9 or 10, 28)"));
  EXPECT_THAT(loops_of(lenet, 0, "h/3"), HasSubstr("h = [0, 9, 18][h0] + h1"));
  EXPECT_THAT(loops_of(lenet, 0, ""), HasSubstr("h - 2:h + 3"));
}

TEST(LoopNest, OfAScanNamesWhatItReads) {
  GraphBuilder b("one", 64);
  b.add("state_space_scan", "scan",
        {b.data("x", {64, 8, 1, 4, 6}), b.data("step", {64, 8, 1, 4}), b.data("b", {64, 8, 1, 2}),
         b.data("c", {64, 8, 1, 2})});
  EXPECT_THAT(loops_of(b.build(), 0, "n/2"),
              HasSubstr("scan[b, s, g, r, p] += state_space_scan(x[b, s, g, r, p], step[b, s, g, r], "
                        "b[b, s, g, n], c[b, s, g, n], scan.a[g, r], scan.step_bias[g, r], "
                        "scan.skip[g, r])\n"));
}

// What the algebra makes of the same config, by layouts: as many addends, and as many devices that have a
// part.
class LoopNests : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, LoopNests, testing::ValuesIn(small_models), ModelWord());

TEST_P(LoopNests, SayWhatLayoutsSay) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  constexpr std::size_t kDevices = 16;
  int addends = 0;
  for_each_seed(6, [&](Rng& rng) {
    for (const Operator& op : graph.operators()) {
      const ParallelConfig config = random_config(op, rng, kDevices, 16);
      EXPECT_EQ(parse_split(op, config.split_str(op)).split_str(op), config.split_str(op));
      const LoopNest nest = loop_nest(graph, op, config);
      std::int64_t parallel = 1;
      for (const FactorLoop& loop : nest.loops) parallel *= loop.parallel ? loop.extents.front() : 1;
      EXPECT_EQ(parallel, config.num_shards());
      for (const TensorUse& use : op.uses) {
        if (use.role == Role::State || use.role == Role::Index) continue;
        const bool output = use.role == Role::Output;
        if (!output && !graph.wants_gradient(use.tensor)) continue;
        const Layout layout = output ? produced_layout(op, use, config) : gradient_layout(op, use, config);
        const SplitTraffic::When when = output                     ? SplitTraffic::When::Forward
                                        : use.role == Role::Weight ? SplitTraffic::When::Update
                                                                   : SplitTraffic::When::Backward;
        std::int64_t told = 1;
        for (const SplitTraffic& t : nest.traffic) {
          if (t.what == SplitTraffic::What::Addends && t.when == when &&
              t.tensor == graph.tensor(use.tensor).name)
            told = t.members;
        }
        const bool twice = std::ranges::count(op.uses, use.tensor, &TensorUse::tensor) > 1;
        if (!twice && graph.gets_gradient(use.tensor)) {
          EXPECT_EQ(told, layout.num_addends())
              << op.name << " " << config.split_str(op) << " " << graph.tensor(use.tensor).name;
        }
        addends += told > 1 ? 1 : 0;
      }
    }
  });
  EXPECT_GT(addends, 0);
}

TEST(ParseSplit, RefusesWhatItDoesNotKnow) {
  const OperatorGraph graph = linear_with_bias();
  const Operator& op = graph.operators()[1];
  for (const auto& [text, said] : {std::pair("q/2", "found \"q/2\", allowed: b/N, i/N, o/N, xN copies"),
                                   {"b2", "found \"b2\""},
                                   {"b/0", "found \"b/0\""},
                                   {"b/99999999999", "found \"b/99999999999\""},
                                   {"x0 copies", "found \"x0\""},
                                   {"b/2 b/4", "factor b is given twice"}}) {
    try {
      (void)parse_split(op, text);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(said)) << text;
    }
  }
  EXPECT_EQ(illegal_split(op, parse_split(op, "b/3")).value_or(""),
            "degree 3 does not divide factor b of size 64");
  EXPECT_EQ(illegal_split(op, parse_split(op, "b/64 o/32 i/12 x1000 copies")).value_or(""),
            "24576000 shards, allowed: 100000 at most");
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include "models/backward_need.h"
#include "models/box.h"
#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

TEST(SelectKeys, NeedsAllKeysAndAllHeads) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("select_keys", {t.x({4, 6, 2, 4}), t.x({4, 6, 4}), t.x({4, 6, 2})}, {{"count", 3}})),
            R"(factors b:S4 s:A6~ i:A2! t:R6!
input [b, s, i, 4]
input [b, t, 4]
input [b, s, i]
output [b, s, 3]
flops F 11bsit + 4bst; B 0; W 0
matrix si x 4 x t for each b
)");
}

TEST(SelectKeys, ByHeadMaySplitHeads) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("select_keys", {t.x({4, 6, 2, 4}), t.x({4, 6, 4})},
                                 {{"count", 4}, {"block", 2}, {"by_head", 1}})),
            R"(factors b:S4 s:A6~ i:A2 t:R6!
input [b, s, i, 4]
input [b, t, 4]
output [b, s, i, 4]
flops F 9bsit + 4bsit; B 0; W 0
matrix si x 4 x t for each b
)");
}

// The last half of the positions sees more keys.
TEST(SelectKeys, WorksThroughVisibleKeysAlone) {
  Bench t;
  const Operator op =
      t.op("select_keys", {t.x({4, 6, 2, 4}), t.x({4, 6, 4}), t.x({4, 6, 2})}, {{"count", 3}});
  std::vector<Range> ranges = whole_ranges(op);
  EXPECT_DOUBLE_EQ(visible_share(op, ranges), 21.0 / 36);
  ranges[1] = {3, 6};
  EXPECT_DOUBLE_EQ(visible_share(op, ranges), 15.0 / 18);
}

// Trained weights lie before it, and it is a result, but integers have no gradient.
TEST(SelectKeys, HasNoGradient) {
  GraphBuilder b("selecting", 2);
  const TensorId tokens = b.data("x", {2, 6, 5});
  const TensorId k = b.add("linear", "k", {tokens}, {{"out", Sizes{4}}});
  const TensorId q = b.add("linear", "q", {tokens}, {{"out", Sizes{3, 4}}});
  const TensorId selected = b.add("select_keys", "select", {q, k}, {{"count", 2}, {"by_head", 1}});
  const OperatorGraph graph = b.build();
  EXPECT_EQ(graph.tensor(selected).type, DataType::Int32);
  EXPECT_FALSE(graph.gets_gradient(selected) || graph.wants_gradient(selected) || graph.gets_gradient(q));
  for (std::size_t o = 0; o < 3; ++o) {
    const BackwardNeed need = backward_need(graph, OperatorId(o));
    EXPECT_FALSE(need.input_pass || need.weight_pass) << o;
  }
}

// Positions have 1, 2, 3, 3, 3 and 3 keys: 2.5 on average.
TEST(SelectedAttention, WorksThroughSelectedKeys) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("selected_attention", {t.x({4, 6, 2, 3, 4}), t.x({4, 6, 2, 4}),
                                                        t.x({4, 6, 2, 8}), t.words({4, 6, 3})})),
            R"(factors b:S4 s:A6~ g:A2 r:A3 t:R6! e:P8
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
index [b, s, 3] saved
output [b, s, g, r, e] saved
flops F 32.5bsgr + 5bsgre; B 60bsgr + 10bsgre; W 0
saves 4bsgr bytes
moves B 32btg + 8btge bytes
matrix r x 4 x 3 for each bsg
)");
}

}  // namespace
}  // namespace pipesim

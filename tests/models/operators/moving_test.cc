#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

// These tests are like those of computing_test.cc, for kinds bound by bytes, and kinds that only move
// elements.

TEST(Swiglu, HasItsActivationsWork) {
  Bench t;
  const TensorId tokens = t.x({4, 7, 8});
  const auto work = [&](const char* gate) {
    return Description::of(t.op("swiglu", {tokens, tokens}, {{"activation", gate}}));
  };
  EXPECT_EQ(work("gelu"), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
input [b, s, h] saved
output [b, s, h]
flops F 9bsh; B 18bsh; W 0
)");
  EXPECT_EQ(work("silu"), Description::of(t.op("swiglu", {tokens, tokens})));
  EXPECT_TRUE(t.op("swiglu", {tokens, tokens}, {{"activation", "silu"}}).attributes.empty());
}

TEST(Activations, OfASquareKeepTheInput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("relu2", {t.x({4, 7, 8})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
output [b, s, h]
flops F 2bsh; B 2bsh; W 0
)");
}

TEST(Relu, KeepsItsOutput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("relu", {t.x({4, 8, 9, 7})})), R"(factors n:S4 c:P8 h:A9~ w:A7~
input [n, c, h, w]
output [n, c, h, w] saved
flops F nchw; B nchw; W 0
)");
}

TEST(Gelu, KeepsItsInput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("gelu", {t.x({4, 8})})), R"(factors b:S4 h:P8
input [b, h] saved
output [b, h]
flops F 8bh; B 8bh; W 0
)");
}

TEST(Silu, KeepsItsInput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("silu", {t.x({4, 7, 8})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
output [b, s, h]
flops F 5bsh; B 5bsh; W 0
)");
}

TEST(Tanh, KeepsItsOutput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("tanh", {t.x({4})})), R"(factors b:S4
input [b]
output [b] saved
flops F 5b; B 5b; W 0
)");
}

TEST(Sigmoid, KeepsItsOutput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("sigmoid", {t.x({4, 5, 2, 3, 8})})), R"(factors b:S4 s:A5~ g:A2 r:A3 d:A8
input [b, s, g, r, d]
output [b, s, g, r, d] saved
flops F 4bsgrd; B 4bsgrd; W 0
)");
}

TEST(Dropout, KeepsNothing) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("dropout", {t.x({4, 7, 8})}, {{"rate", 0.1}})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h]
output [b, s, h]
flops F 2bsh; B bsh; W 0
)");
}

TEST(Add, KeepsNothing) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("add", {t.x({4, 7, 8}), t.x({8})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h]
input [h]
output [b, s, h]
flops F bsh; B bsh; W 0
)");
}

TEST(Mul, KeepsBothAndBroadcasts) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("mul", {t.x({4, 7, 8}), t.x({7, 1})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
input [s, 1] saved
output [b, s, h]
flops F bsh; B 2bsh; W 0
)");
}

TEST(Concat, PlacesInputsAlongTheAxis) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("concat", {t.x({4, 3, 5, 5}), t.x({4, 2, 5, 5})}, {{"axis", 1}})),
            R"(factors n:S4 c:P5~ h:A5~ w:A5~
input [n, c, h, w]
input [n, c-3, h, w]
output [n, c, h, w]
flops F 0; B 0; W 0
)");
}

TEST(Split, PlacesOutputsAlongTheAxis) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("split", {t.x({4, 8})}, {{"axis", 1}, {"sizes", Sizes{3, 5}}})),
            R"(factors b:S4 h:P8~
input [b, h]
output [b, h]
output [b, h-3]
flops F 0; B 0; W 0
)");
}

TEST(Broadcast, ReadsTheSameForEveryIndexOfTheNewDimension) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("broadcast", {t.x({4, 7, 8})}, {{"axis", 2}, {"size", 3}})),
            R"(factors n:S4 c:P7 h:A3~ w:A8~
input [n, c, w]
output [n, c, h, w]
flops F 0; B nchw; W 0
)");
}

TEST(Reshape, FollowsTheCommonRefinement) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("reshape", {t.x({4, 6, 8})}, {{"shape", Sizes{2, 12, 2, 4}}})),
            R"(factors b:S2 b2:A2~ s:A6~ h:P2 h2:P4
input [(b·b2), s, (h·h2)]
output [b, (b2·s), h, h2]
flops F 0; B 0; W 0
)");
}

TEST(Reshape, NeedsDimsWithoutRefinementWhole) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("reshape", {t.x({4, 5, 6, 1})}, {{"shape", Sizes{4, 3, 10}}})),
            R"(factors n:S4
input [n, 5, 6, 1]
output [n, 3, 10]
flops F 0; B 0; W 0
)");
}

TEST(Flatten, MergesChannelsRowsAndColumns) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("flatten", {t.x({4, 8, 9, 7})})), R"(factors n:S4 c:P8 h:A9~ w:A7~
input [n, c, h, w]
output [n, (c·h·w)]
flops F 0; B 0; W 0
)");
}

TEST(Transpose, PermutesFactors) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("transpose", {t.x({4, 7, 8})}, {{"order", Sizes{1, 0, 2}}})),
            R"(factors b:S4 s:A7~ h:P8
input [b, s, h]
output [s, b, h]
flops F 0; B 0; W 0
)");
}

TEST(Profiled, SplitsSamplesOnly) {
  Bench t;
  EXPECT_EQ(
      Description::of(
          t.op("profiled", {t.x({4, 6})},
               {{"forward_ms", 1.5}, {"backward_ms", 3}, {"activation_bytes", 22}, {"parameter_bytes", 10}})),
      R"(factors n:S4
input [n, 6] saved
weight [3]
output [n, 6]
flops F 0; B 0; W 0
)");
}

TEST(Profiled, TakesMeasuredTimes) {
  Bench t;
  const Operator op = t.op("profiled", {}, {{"forward_ms", 1.5}, {"backward_ms", 3}});
  EXPECT_EQ(op.measured, (MeasuredTime{Seconds(1.5 * 1e-3), Seconds(3 * 1e-3)}));
}

TEST(Reshape, RunsNoKernel) {
  Bench t;
  EXPECT_TRUE(t.op("flatten", {t.x({4, 3, 5})}).moves_nothing);
  EXPECT_FALSE(t.op("transpose", {t.x({4, 3})}, {{"order", Sizes{1, 0}}}).moves_nothing);
}

TEST(Pool2d, CountsWindowsLikeFrameworks) {
  const auto rows = [](std::int64_t extent, std::int64_t pad, bool ceil) {
    Bench t;
    const Operator op = t.op("pool2d", {t.x({4, 1, extent, extent})},
                             {{"kernel", 2}, {"stride", 2}, {"pad", pad}, {"ceil", ceil ? 1 : 0}});
    return extents(op.uses[1].dims)[2];
  };
  EXPECT_EQ(rows(7, 0, false), 3);
  EXPECT_EQ(rows(7, 0, true), 4);
  EXPECT_EQ(rows(6, 1, true), 4);
  EXPECT_EQ(rows(5, 1, true), 3);  // a fourth window would begin on the padding
}

TEST(Attention, MasksQueriesAgainstKeys) {
  Bench t;
  const TensorId q = t.x({4, 6, 2, 1, 4}), k = t.x({4, 6, 2, 4});
  const Operator op = t.op("attention", {q, k, k}, {{"causal", 1}});
  EXPECT_EQ(op.causal, std::make_pair(op.factor("s"), op.factor("t")));
  EXPECT_EQ(t.op("attention", {q, k, k}).causal, std::nullopt);
}

}  // namespace
}  // namespace pipesim

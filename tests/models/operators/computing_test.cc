#include <gtest/gtest.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

// What each kind says of itself: factors, which tensors follow them, work, and what is kept for backward.

TEST(Linear, ContractsTheLastDim) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("linear", {t.x({4, 7, 8})}, {{"out", 6}})), R"(factors b:S4 s:A7~ i:R8 o:P6
input [b, s, i] saved
weight [i, o]
weight [o] i:once
output [b, s, o]
flops F 2bsoi + bso; B 2bsoi; W 2bsoi + bso
matrix bs x i x o
)");
}

TEST(Linear, FusesAnActivationOverCompleteSumsOnly) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("linear", {t.x({4, 6, 2, 3})},
                                 {{"out", Sizes{5, 4}}, {"contract", 2}, {"activation", "gelu"}})),
            R"(factors b:S4 s:A6~ i:R2! i2:R3! o:P5 o2:P4
input [b, s, i, i2] saved
weight [i, i2, o, o2]
weight [o, o2] i:once i2:once
output [b, s, o, o2]
flops F 2bsoo2ii2 + bsoo2 + 8bsoo2; B 2bsoo2ii2 + 8bsoo2; W 2bsoo2ii2 + bsoo2
saves 4bsoo2 bytes
matrix bs x ii2 x oo2
)");
}

TEST(Linear, ListsATiedWeightOutputsFirst) {
  Bench t;
  EXPECT_EQ(
      Description::of(t.op("linear", {t.x({4, 7, 8})}, {{"out", 11}, {"transpose_weight", 1}, {"bias", 0}})),
      R"(factors b:S4 s:A7~ i:R8 o:P11~
input [b, s, i] saved
weight [o, i]
output [b, s, o]
flops F 2bsoi; B 2bsoi; W 2bsoi
matrix bs x i x o
)");
}

TEST(Linear, RoutesUnsplitButForTheFirstDim) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("linear", {t.x({4, 7, 8})}, {{"out", 4}, {"router", 1}, {"bias", 0}})),
            R"(factors b:S4 s:A7~! i:R8! o:P4!
input [b, s, i] saved
weight [i, o]
output [b, s, o]
flops F 2bsoi; B 2bsoi; W 2bsoi
matrix bs x i x o
)");
}

TEST(Matmul, TakesTheSecondFactorEitherWay) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("matmul", {t.x({4, 3, 7, 8}), t.x({4, 3, 5, 8})}, {{"transpose_q", 1}})),
            R"(factors a:S4 a2:A3 m:A7~ n:A5~ k:R8
input [a, a2, m, k] saved
input [a, a2, n, k] saved
output [a, a2, m, n]
flops F 2aa2mnk; B 4aa2mnk; W 0
matrix m x k x n for each aa2
)");
}

TEST(Conv2d, HasNoGroupFactorForOneGroup) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("conv2d", {t.x({4, 8, 9, 7})}, {{"out", 4}, {"kernel", 3}, {"pad", 1}})),
            R"(factors n:S4 o:P4 i:R8 h:A9~ w:A7~
input [n, i, h*1/3, w*1/3] saved
weight [o, i, 3, 3]
weight [o] i:once
output [n, o, h, w]
flops F 18noihw + nohw; B 18noihw; W 18noihw + nohw
matrix nhw x 9i x o
)");
}

TEST(Conv2d, KeepsTheReluOutput) {
  Bench t;
  EXPECT_EQ(
      Description::of(t.op(
          "conv2d", {t.x({4, 8, 9, 7})},
          {{"out", 4}, {"kernel", Sizes{1, 7}}, {"pad", Sizes{0, 3}}, {"activation", "relu"}, {"bias", 0}})),
      R"(factors n:S4 o:P4 i:R8! h:A9~ w:A7~
input [n, i, h*1/1, w*1/7] saved
weight [o, i, 1, 7]
output [n, o, h, w] saved
flops F 14noihw + nohw; B 14noihw + nohw; W 14noihw
matrix nhw x 7i x o
)");
}

TEST(Conv2d, MergesGroupsWithChannels) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("conv2d", {t.x({4, 8, 9, 7})},
                                 {{"out", 6}, {"kernel", 3}, {"stride", 2}, {"groups", 2}})),
            R"(factors n:S4 g:P2 o:P3 i:R4 h:A4~ w:A3~
input [n, (g·i), h*2/3, w*2/3] saved
weight [(g·o), i, 3, 3]
weight [(g·o)] i:once
output [n, (g·o), h, w]
flops F 18ngoihw + ngohw; B 18ngoihw; W 18ngoihw + ngohw
matrix nhw x 9i x o for each g
)");
}

TEST(Conv2d, FollowsGroupsAloneWhenDepthwise) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("conv2d", {t.x({4, 8, 9, 7})},
                                 {{"out", 8}, {"kernel", 3}, {"groups", 8}, {"dilation", 2}, {"bias", 0}})),
            R"(factors n:S4 g:P8 h:A5~ w:A3~
input [n, g, h*1/3x2, w*1/3x2] saved
weight [g, 1, 3, 3]
output [n, g, h, w]
flops F 18nghw; B 18nghw; W 18nghw
matrix nhw x 9 x 1 for each g
)");
}

TEST(Pool2d, KeepsWhichElementWasTheLargest) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("pool2d", {t.x({4, 8, 9, 8})}, {{"kernel", 3}, {"stride", 2}})),
            R"(factors n:S4 c:P8 h:A4~ w:A3~
input [n, c, h*2/3, w*2/3]
output [n, c, h, w]
flops F 9nchw; B nchw; W 0
saves nchw bytes
)");
}

TEST(Pool2d, AveragesWithoutKeepingAnything) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("pool2d", {t.x({4, 8, 9, 8})}, {{"mode", "avg"}, {"kernel", 2}})),
            R"(factors n:S4 c:P8 h:A4~ w:A4~
input [n, c, h*2/2, w*2/2]
output [n, c, h, w]
flops F 4nchw; B 4nchw; W 0
)");
}

TEST(Reduce, LeavesPartialSums) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("reduce", {t.x({4, 8, 9, 7})}, {{"axes", Sizes{2, 3}}, {"mode", "mean"}})),
            R"(factors n:S4 c:P8 h:R9~ w:R7~
input [n, c, h, w]
output [n, c]
flops F nchw; B nchw; W 0
)");
}

TEST(Reduce, AgreesOnTheLargestInside) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("reduce", {t.x({4, 7, 8})}, {{"axes", 1}, {"mode", "max"}})),
            R"(factors b:S4 s:R7~ h:P8
input [b, s, h] saved
output [b, h] saved s:same
inner F max over s: bh of 4 bytes after 1.000
flops F bsh; B bsh; W 0
)");
}

TEST(BatchNorm, AgreesOnStatisticsPerChannel) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("batch_norm", {t.x({4, 8, 9, 7})})), R"(factors n:S4 c:P8 h:A9~ w:A7~
input [n, c, h, w] saved passes 2, 2
weight [c]
weight [c]
state [c] n:same h:same w:same
state [c] n:same h:same w:same
output [n, c, h, w] passes 1, 2
inner F sum over n,h,w: 2c of 8 bytes after 0.429
inner B sum over n,h,w: 2c of 8 bytes after 0.364
flops F 7nchw; B 11nchw; W 0
saves 8c bytes
)");
}

TEST(BatchNorm, KeepsLocalStatisticsOnOneShard) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("batch_norm", {t.x({4, 8, 9, 7})}, {{"statistics", "local"}, {"activation", "relu"}})),
            R"(factors n:S4 c:P8 h:A9~ w:A7~
input [n, c, h, w] saved passes 2, 2
weight [c]
weight [c]
state [c] n:once h:once w:once
state [c] n:once h:once w:once
output [n, c, h, w] saved passes 1, 2
flops F 7nchw + nchw; B 11nchw + nchw; W 0
saves 8c bytes
)");
}

TEST(LayerNorm, SumsTwoNumbersARow) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("layer_norm", {t.x({4, 7, 8})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
weight [h]
weight [h]
output [b, s, h]
inner F sum over h: 2bs of 8 bytes after 0.429
inner B sum over h: 2bs of 8 bytes after 0.455
flops F 7bsh; B 11bsh; W 0
saves 8bs bytes
)");
}

TEST(RmsNorm, SumsOneNumberARow) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("rms_norm", {t.x({4, 7, 8})}, {{"groups", 2}})),
            R"(factors b:S4 s:A7~ h:P4 p:P2
input [b, s, (p·h)] saved
weight [(p·h)]
output [b, s, (p·h)]
inner F sum over h: bsp of 8 bytes after 0.400
inner B sum over h: bsp of 8 bytes after 0.375
flops F 5bshp; B 8bshp; W 0
saves 4bsp bytes
)");
  EXPECT_EQ(t.op("rms_norm", {t.x({4, 7, 8})}, {{"groups", 1}, {"affine", 1}}).attributes,
            t.op("rms_norm", {t.x({4, 7, 8})}).attributes);
  EXPECT_EQ(t.op("rms_norm", {t.x({4, 7, 8})}, {{"affine", 0}}).uses.size(), 2U);
  EXPECT_EQ(Description::of(t.op("rms_norm", {t.x({4, 7, 8})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
weight [h]
output [b, s, h]
inner F sum over h: bs of 8 bytes after 0.400
inner B sum over h: bs of 8 bytes after 0.375
flops F 5bsh; B 8bsh; W 0
saves 4bs bytes
)");
}

TEST(Softmax, AgreesOnMaximumAndSum) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("softmax", {t.x({4, 7, 8})})), R"(factors b:S4 s:A7~ v:A8~
input [b, s, v]
output [b, s, v] saved
inner F max over v: bs of 4 bytes after 0.200
inner F sum over v: bs of 4 bytes after 0.800
inner B sum over v: bs of 4 bytes after 0.500
flops F 5bsv; B 4bsv; W 0
)");
}

TEST(Embedding, ReadsRowsNotTheTable) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("embedding", {t.words({4, 7})}, {{"rows", 11}, {"width", 6}})),
            R"(factors b:S4 s:A7~ v:R11~ h:P6
index [b, s] saved
weight [v, h] passes 0, 1
output [b, s, h]
flops F 0; B 0; W bsh
moves F 4bsh bytes
)");
}

TEST(LstmCell, NeedsInputAndStateWhole) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("lstm_cell", {t.x({4, 6}), t.x({4, 8}), t.x({4, 8})}, {{"hidden", 8}})),
            R"(factors n:S4 h:P8
input [n, 6] saved
input [n, 8] saved
input [n, h] saved
weight [6, 4, h]
weight [8, 4, h]
weight [4, h]
output [n, h]
output [n, h] saved
flops F 142nh; B 112nh; W 112nh
saves 16nh bytes
matrix n x 14 x 4h
)");
}

TEST(BahdanauAttention, ReadsValuesAfterTheScores) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("bahdanau_attention", {t.x({4, 6}), t.x({4, 5, 6}), t.x({4, 5, 8})})),
            R"(factors n:S4 s:R5~ a:R6 d:P8
input [n, a] saved
input [n, s, a] saved
input [n, s, d] saved a:same
weight [a]
output [n, d] a:same
inner F sum over a: ns of 4 bytes after 0.639
inner F max over s: n of 4 bytes after 0.646
inner F sum over s: n of 4 bytes after 0.652
inner B sum over s: n of 4 bytes after 0.186
flops F 5nsa + 2nsd; B 9nsa + 4nsd; W 0
saves 4ns bytes
)");
}

TEST(MoeDispatch, MovesTheChosenRows) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("moe_dispatch", {t.x({4, 7, 8}), t.x({4, 7, 2})}, {{"top_k", 1}, {"capacity", 5}})),
            R"(factors g:S4 e:P2 h:A8
input [g, 7, h] passes 0, 0
index [g, 7, 2]
output [g, e, 5, h] passes 0, 0
flops F 0; B 0; W 0
saves 56g bytes
moves F 28geh bytes
moves B 28geh bytes
)");
}

TEST(MoeDispatch, SplitsASampleIntoGroups) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("moe_dispatch", {t.x({4, 6, 8}), t.x({4, 6, 2})},
                                 {{"top_k", 1}, {"capacity", 2}, {"groups", 3}})),
            R"(factors g:S4 m:A3 n:A2! e:P2 h:A8
input [g, (m·n), h] passes 0, 0
index [g, (m·n), 2]
output [g, m, e, 2, h] passes 0, 0
flops F 0; B 0; W 0
saves 16gm bytes
moves F 8gmeh bytes
moves B 8gmeh bytes
)");
}

TEST(MoeDispatch, SendsWeightsOfTokensWithThem) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("moe_dispatch", {t.x({4, 6, 8}), t.x({4, 6, 2})},
                                 {{"top_k", 1}, {"capacity", 2}, {"groups", 3}, {"weights", 1}})),
            R"(factors g:S4 m:A3 n:A2! e:P2 h:A8!
input [g, (m·n), h] passes 0, 0
input [g, (m·n), 2]
output [g, m, e, 2, h] passes 0, 0
output [g, m, e, 2, 1]
flops F 0; B 0; W 0
saves 16gm bytes
moves F 8gmeh bytes
moves B 8gmeh bytes
)");
}

TEST(MoeCombine, KeepsRoutesOnlyOfWeightedResults) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("moe_combine", {t.x({4, 2, 5, 8}), t.x({4, 7, 2})}, {{"top_k", 1}, {"unweighted", 1}})),
            R"(factors g:S4 e:R2 h:A8
input [g, e, 5, h]
index [g, 7, 2]
output [g, 7, h]
flops F 3.5geh; B 0; W 0
saves 56g bytes
)");
}

TEST(MoeCombine, PutsTheGroupsOfASampleTogether) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("moe_combine", {t.x({4, 3, 2, 5, 8}), t.x({4, 6, 2})}, {{"top_k", 1}})),
            R"(factors g:S4 m:A3 n:A2! e:R2 h:A8
input [g, m, e, 5, h] saved
input [g, (m·n), 2] saved
output [g, (m·n), h]
flops F 2gmeh; B 4gmeh; W 0
)");
}

TEST(ExpertLinear, HasAWeightPerExpert) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("expert_linear", {t.x({4, 3, 2, 8})}, {{"out", 6}})),
            R"(factors g:S4 e:P3 c:A2 h:R8 f:P6
input [g, e, c, h] saved
weight [e, h, f]
output [g, e, c, f]
flops F 2gechf; B 2gechf; W 2gechf
matrix gc x h x f for each e
)");
  EXPECT_EQ(Description::of(t.op("expert_linear", {t.x({4, 7, 3, 2, 8})}, {{"out", 6}})),
            R"(factors g:S4 m:A7 e:P3 c:A2 h:R8 f:P6
input [g, m, e, c, h] saved
weight [e, h, f]
output [g, m, e, c, f]
flops F 2gmechf; B 2gmechf; W 2gmechf
matrix gmc x h x f for each e
)");
}

TEST(ExpertLinear, HasABiasPerExpert) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("expert_linear", {t.x({4, 3, 2, 8})}, {{"out", 6}, {"bias", 1}})),
            R"(factors g:S4 e:P3 c:A2 h:R8 f:P6
input [g, e, c, h] saved
weight [e, h, f]
weight [e, f] h:once
output [g, e, c, f]
flops F 2gechf + gecf; B 2gechf; W 2gechf + gecf
matrix gc x h x f for each e
)");
  EXPECT_EQ(t.op("expert_linear", {t.x({4, 3, 2, 8})}, {{"out", 6}, {"bias", 0}}).attributes,
            t.op("expert_linear", {t.x({4, 3, 2, 8})}, {{"out", 6}}).attributes);
}

TEST(MoeCombine, LeavesAPartialSumOverExperts) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("moe_combine", {t.x({4, 2, 5, 8}), t.x({4, 7, 2})}, {{"top_k", 1}})),
            R"(factors g:S4 e:R2 h:A8
input [g, e, 5, h] saved
input [g, 7, 2] saved
output [g, 7, h]
flops F 7geh; B 14geh; W 0
)");
}

}  // namespace
}  // namespace pipesim

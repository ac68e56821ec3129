#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

// These tests are like those of computing_test.cc, for functions of elements, choices of elements, sums of
// any letters, and for what is known of operators that only have tensors.

TEST(LeakyRelu, KeepsItsInput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("leaky_relu", {t.x({4, 8})})), R"(factors b:S4 h:P8
input [b, h] saved
output [b, h]
flops F 2bh; B 2bh; W 0
)");
}

TEST(Exp, KeepsItsOutput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("exp", {t.x({4, 8})})), R"(factors b:S4 h:P8
input [b, h]
output [b, h] saved
flops F 4bh; B 4bh; W 0
)");
}

TEST(Affine, KeepsNothing) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("affine", {t.x({4, 8})}, {{"factor", 0.5}})), R"(factors b:S4 h:P8
input [b, h]
output [b, h]
flops F 2bh; B 2bh; W 0
)");
}

TEST(Div, KeepsBothOperands) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("div", {t.x({4, 7, 8}), t.x({7, 1})})), R"(factors b:S4 s:A7~ h:P8
input [b, s, h] saved
input [s, 1] saved
output [b, s, h]
flops F bsh; B 4bsh; W 0
)");
}

TEST(Sub, KeepsNothing) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("sub", {t.x({4, 8}), t.x({8})})), R"(factors b:S4 h:P8
input [b, h]
input [h]
output [b, h]
flops F bh; B bh; W 0
)");
}

TEST(Expand, AddsUpTheGradientOfWhatItRepeats) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("expand", {t.x({4, 1, 8})}, {{"shape", Sizes{4, 6, 8}}})),
            R"(factors b:S4 s:A6~ h:P8
input [b, 1, h]
output [b, s, h]
flops F 0; B bsh; W 0
)");
}

TEST(Slice, ReadsWindowsOfOneElement) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("slice", {t.x({4, 9, 8})}, {{"axis", 1}, {"start", 1}, {"length", 4}, {"step", 2}})),
            R"(factors b:S4 s:A4~ h:P8
input [b, s*2/1, h]
output [b, s, h]
flops F 0; B 0; W 0
)");
}

TEST(Pad, WithZerosMayBeSplit) {
  Bench t;
  EXPECT_EQ(
      Description::of(t.op("pad", {t.x({4, 6, 8})}, {{"before", Sizes{0, 2, 0}}, {"after", Sizes{0, 1, 0}}})),
      R"(factors b:S4 s:A9~ h:P8
input [b, s-2, h]
output [b, s, h]
flops F 0; B 0; W 0
)");
}

TEST(Pad, WithWhatIsInsideMayNot) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("pad", {t.x({4, 6, 8})},
                                 {{"before", Sizes{0, 2, 0}}, {"after", Sizes{0, 1, 0}}, {"mode", "edge"}})),
            R"(factors b:S4 s:A9~! h:P8
input [b, 6, h]
output [b, s, h]
flops F 0; B 0; W 0
)");
}

TEST(Roll, MayNotBeSplitAlongItsAxis) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("roll", {t.x({4, 6, 8})}, {{"axis", 1}, {"shift", 2}})),
            R"(factors b:S4 s:A6~! h:P8
input [b, s, h]
output [b, s, h]
flops F 0; B 0; W 0
)");
}

TEST(Gather, HasAddendsOverItsAxis) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("gather", {t.x({4, 9, 8}), t.words({5})}, {{"axis", 1}})),
            R"(factors b:S4 v:R9~ h:P8 i:A5~
input [b, v, h] passes 0, 1
index [i] saved
output [b, i, h]
flops F 0; B bih; W 0
moves F 4bih bytes
)");
}

TEST(Einsum, IsAMatrixProductWhereLettersAllow) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("einsum", {t.x({4, 6, 8}), t.x({4, 5, 8})}, {{"equation", "bsh,bth->bst"}})),
            R"(factors b:S4 s:A6 t:A5 h:R8
input [b, s, h] saved
input [b, t, h] saved
output [b, s, t]
flops F 2bsth; B 4bsth; W 0
matrix s x h x t for each b
)");
}

TEST(Einsum, OfOneOperandAddsUp) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("einsum", {t.x({4, 6})}, {{"equation", "bs->b"}})), R"(factors b:S4 s:R6
input [b, s]
output [b]
flops F bs; B bs; W 0
)");
}

TEST(EmbeddingBag, ReadsTheRowsOfItsBags) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("embedding_bag", {t.words({4, 5})}, {{"rows", 11}, {"width", 6}})),
            R"(factors b:S4 l:R5~ v:R11~ h:P6
index [b, l] saved
weight [v, h] passes 0, 1
output [b, h]
flops F blh; B 0; W blh
moves F 4blh bytes
)");
}

TEST(CausalConvolution, ReadsPositionsBeforeItsShard) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("causal_convolution", {t.x({4, 7, 2, 3})}, {{"kernel", 4}, {"silu", 1}})),
            R"(factors b:S4 s:A7~ c:P2 c2:P3
input [b, s*1/4, c, c2] saved
weight [c, c2, 4]
weight [c, c2]
output [b, s, c, c2]
flops F 14bscc2; B 33bscc2; W 0
)");
}

TEST(SelectiveScan, AddsUpOverStates) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("selective_scan", {t.x({4, 7, 8}), t.x({4, 7, 8}), t.x({4, 7, 2}), t.x({4, 7, 2})})),
            R"(factors b:S4 s:A7! d:P8 n:R2
input [b, s, d] saved
input [b, s, d] saved
input [b, s, n] saved
input [b, s, n] saved
weight [d, n]
weight [d] n:once
output [b, s, d]
flops F 11bsdn + 2bsd; B 26bsdn + 4bsd; W 0
)");
}

TEST(Parameter, FollowsItsWeight) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("parameter", {}, {{"shape", Sizes{7, 8}}})), R"(factors d:P7 d2:P8
weight [d, d2]
output [d, d2]
flops F 0; B 0; W 0
)");
}

TEST(BiasedAttention, AddsAnInputToScores) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("biased_attention", {t.x({4, 6, 2, 3, 4}), t.x({4, 5, 2, 4}),
                                                      t.x({4, 5, 2, 8}), t.x({2, 1, 6, 5})})),
            R"(factors b:S4 s:A6~ g:A2 r:A3 t:R5~ e:P8
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
input [g, 1, s, t] saved
output [b, s, g, r, e] saved
inner F max over t: bsgr of 4 bytes after 0.333
inner F sum over t: bsgr of 4 bytes after 0.433
inner B sum over t: bsgr of 4 bytes after 0.138
flops F 2bsgrte + 14bsgrt; B 4bsgrte + 26bsgrt; W 0
saves 4bsgr bytes
matrix s x 4 x t for each bgr
)");
}

TEST(SquaredError, IsAddendsOfAMean) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("squared_error", {t.x({4, 8}), t.x({4, 8})})), R"(factors b:S4 h:P8
input [b, h] saved
input [b, h] saved
output []
flops F 3bh; B 2bh; W 0
)");
}

TEST(BinaryCrossEntropy, IsAddendsOfAMean) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("binary_cross_entropy", {t.x({4, 8}), t.x({4, 8})})), R"(factors b:S4 h:P8
input [b, h] saved
input [b, h] saved
output []
flops F 10bh; B 6bh; W 0
)");
}

TEST(LayerNormWithoutWeights, KeepsItsInput) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("layer_norm", {t.x({4, 8})}, {{"affine", 0}})), R"(factors b:S4 h:P8
input [b, h] saved
output [b, h]
inner F sum over h: 2b of 8 bytes after 0.429
inner B sum over h: 2b of 8 bytes after 0.455
flops F 7bh; B 11bh; W 0
saves 8b bytes
)");
}

TEST(Opaque, IsSplitAlongSamplesAlone) {
  Bench t;
  EXPECT_EQ(
      Description::of(t.op("opaque", {t.x({4, 8})},
                           {{"what", "x"}, {"shape", Sizes{4, 3}}, {"samples", 1}, {"parameters", 10}})),
      R"(factors n:S4
input [n, 8] saved
weight [10]
output [n, 3]
flops F 0; B 0; W 0
)");
}

}  // namespace
}  // namespace pipesim

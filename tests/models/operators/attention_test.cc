#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

// What each kind says of itself: factors, which tensors follow them, work, and what is kept for backward.

TEST(Attention, GroupsQueryHeads) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("attention", {t.x({4, 6, 2, 3, 4}), t.x({4, 5, 2, 4}), t.x({4, 5, 2, 8})})),
            R"(factors b:S4 s:A6~ g:A2 r:A3 t:R5~ e:P8
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
output [b, s, g, r, e] saved
inner F max over t: bsgr of 4 bytes after 0.310
inner F sum over t: bsgr of 4 bytes after 0.414
inner B sum over t: bsgr of 4 bytes after 0.143
flops F 2bsgrte + 13bsgrt; B 4bsgrte + 24bsgrt; W 0
saves 4bsgr bytes
matrix s x 4 x t for each bgr
)");
}

TEST(Attention, HasASinkForEachHead) {
  Bench t;
  const std::initializer_list<TensorId> inputs{t.x({4, 6, 2, 3, 4}), t.x({4, 5, 2, 4}), t.x({4, 5, 2, 8})};
  EXPECT_EQ(Description::of(t.op("attention", inputs, {{"sinks", 1}, {"cap", 30.0}})),
            R"(factors b:S4 s:A6~ g:A2 r:A3 t:R5~ e:P8
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
weight [g, r] t:once
output [b, s, g, r, e] saved
inner F max over t: bsgr of 4 bytes after 0.375
inner F sum over t: bsgr of 4 bytes after 0.469
inner B sum over t: bsgr of 4 bytes after 0.129
flops F 2bsgrte + 16bsgrt + 3bsgr; B 4bsgrte + 30bsgrt + 3bsgr; W 0
saves 4bsgr bytes
matrix s x 4 x t for each bgr
)");
}

// What is off is not among the attributes, so that models keep their fingerprints.
TEST(Attention, LeavesOutWhatIsOff) {
  Bench t;
  const TensorId q = t.x({4, 6, 2, 3, 4}), k = t.x({4, 6, 2, 4});
  const Attributes off{{"causal", 1}, {"window", 0}, {"sinks", 0}, {"cap", 0.0}};
  EXPECT_EQ(t.op("attention", {q, k, k}, off).attributes, (Attributes{{"causal", 1}}));
  const Operator on = t.op("attention", {q, k, k}, {{"causal", 1}, {"window", 2}});
  EXPECT_EQ(on.attributes, (Attributes{{"causal", 1}, {"window", 2}}));
  EXPECT_EQ(Description::of(on), Description::of(t.op("attention", {q, k, k}, {{"causal", 1}})));
}

TEST(AlibiAttention, LearnsNoSlopes) {
  Bench t;
  const TensorId q = t.x({4, 6, 2, 3, 4}), k = t.x({4, 6, 2, 4});
  const Operator op = t.op("alibi_attention", {q, k, k}, {{"causal", 1}});
  EXPECT_THAT(Description::of(op),
              testing::HasSubstr("flops F 2bsgrte + 14bsgrt; B 4bsgrte + 25bsgrt; W 0\n"));
  EXPECT_EQ(op.uses.size(), 4);
}

TEST(RelativeAttention, HasBiasesOfEachHead) {
  Bench t;
  const auto inputs = {t.x({4, 6, 2, 3, 4}), t.x({4, 5, 2, 4}), t.x({4, 5, 2, 8})};
  EXPECT_EQ(Description::of(t.op("relative_attention", inputs, {{"buckets", 8}})),
            R"(factors b:S4 s:A6~ g:A2 r:A3 t:R5~ e:P8
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
weight [8, g, r]
output [b, s, g, r, e] saved
inner F max over t: bsgr of 4 bytes after 0.333
inner F sum over t: bsgr of 4 bytes after 0.433
inner B sum over t: bsgr of 4 bytes after 0.138
flops F 2bsgrte + 14bsgrt; B 4bsgrte + 26bsgrt; W 0
saves 4bsgr bytes
matrix s x 4 x t for each bgr
)");
}

// In float32: the softmax alone is kept, or also a mask and what dropout leaves of it.
TEST(ScoredAttention, KeepsTheSoftmaxOfItsScores) {
  Bench t;
  const TensorId q = t.x({4, 6, 2, 1, 4}), k = t.x({4, 6, 2, 4});
  const Operator plain = t.op("scored_attention", {q, k, k}, {{"causal", 1}});
  EXPECT_EQ(Description::of(plain), R"(factors b:S4 s:A6~ g:A2 r:A1 t:R6~ e:P4
input [b, s, g, r, 4] saved
input [b, t, g, 4] saved
input [b, t, g, e] saved
output [b, s, g, r, e] saved
inner F max over t: bsgr of 4 bytes after 0.429
inner F sum over t: bsgr of 4 bytes after 0.571
inner B sum over t: bsgr of 4 bytes after 0.200
flops F 2bsgrte + 13bsgrt; B 4bsgrte + 24bsgrt; W 0
saves 4bsgr + 4bsgrt bytes
moves F 16bsgrt bytes
moves B 20bsgrt bytes
matrix s x 4 x t for each bgr
)");
  EXPECT_EQ(plain.causal, std::nullopt);  // all products are computed
  const Operator dropped = t.op("scored_attention", {q, k, k}, {{"dropout", 0.1}, {"buckets", 8}});
  const std::string text = Description::of(dropped);
  EXPECT_THAT(
      text, testing::HasSubstr("saves 4bsgr + 9bsgrt bytes\nmoves F 25bsgrt bytes\nmoves B 28bsgrt bytes\n"));
  EXPECT_THAT(text, testing::HasSubstr("weight [8, g, r]\n"));
}

// A cap's hyperbolic tangent is kept beside the softmax, and of the softmax a column for the sink.
TEST(ScoredAttention, WritesCappedScoresAndSinks) {
  Bench t;
  const TensorId q = t.x({4, 6, 2, 1, 4}), k = t.x({4, 6, 2, 4});
  const Operator op =
      t.op("scored_attention", {q, k, k}, {{"causal", 1}, {"window", 2}, {"sinks", 1}, {"cap", 30.0}});
  EXPECT_THAT(Description::of(op),
              testing::HasSubstr(
                  "saves 4bsgr + 4bsgrt + 4bsgrt + 4bsgr bytes\n"
                  "moves F 16bsgrt + 24bsgrt + 8bsgrt bytes\nmoves B 20bsgrt + 24bsgrt + 8bsgrt bytes\n"));
  EXPECT_EQ(op.causal, std::nullopt);
}

TEST(Rotary, RotatesWholeHeads) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("rotary", {t.x({4, 6, 2, 3, 8})})), R"(factors b:S4 s:A6~ g:A2 r:A3 d:A8!
input [b, s, g, r, d]
output [b, s, g, r, d]
flops F 3bsgrd; B 3bsgrd; W 0
)");
}

TEST(Rotary, RotatesAPartOfHeads) {
  Bench t;
  const TensorId heads = t.x({4, 6, 2, 3, 8});
  EXPECT_EQ(Description::of(t.op("rotary", {heads}, {{"width", 6}})), R"(factors b:S4 s:A6~ g:A2 r:A3 d:A8!
input [b, s, g, r, d]
output [b, s, g, r, d]
flops F 18bsgr; B 18bsgr; W 0
)");
  // All of them are what they were before there was a part.
  for (const std::int64_t all : {0, 8}) {
    const Operator op = t.op("rotary", {heads}, {{"width", all}});
    EXPECT_EQ(op.attributes, t.op("rotary", {heads}).attributes);
    EXPECT_EQ(Description::of(op), Description::of(t.op("rotary", {heads})));
  }
}

}  // namespace
}  // namespace pipesim

#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(CrossEntropy, IsAScalarThatShardsOfTheVocabularyShare) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("cross_entropy", {t.x({4, 7, 9}), t.words({4, 7})})),
            R"(factors b:S4 s:A7~ v:P9~
input [b, s, v] saved
index [b, s] saved v:same
output [] v:same
inner F max over v: bs of 4 bytes after 0.250
inner F sum over v: 2bs of 4 bytes after 0.875
flops F 4bsv; B 3bsv; W 0
saves 4bs bytes
)");
}

TEST(CrossEntropy, KeepsTheSoftmaxInPlaceOfTheLogits) {
  Bench t;
  const Operator op = t.op("cross_entropy", {t.x({4, 7, 9}), t.words({4, 7})}, {{"keep_softmax", 1}});
  EXPECT_EQ(Description::of(op),
            R"(factors b:S4 s:A7~ v:P9~
input [b, s, v]
index [b, s] saved v:same
output [] v:same
inner F max over v: bs of 4 bytes after 0.250
inner F sum over v: 2bs of 4 bytes after 0.875
flops F 4bsv; B 3bsv; W 0
saves 4bsv bytes
moves F 4bsv bytes
)");
}

// Log softmax, its gradient and x's in float32: 12 bytes a logit at once, x's own gradient included.
TEST(CrossEntropy, KeepsTheLogarithmOfTheSoftmaxAsPyTorchDoes) {
  Bench t;
  const Operator op = t.op("cross_entropy", {t.x({4, 7, 9}), t.words({4, 7})}, {{"keep_log_softmax", 1}});
  EXPECT_FALSE(op.uses[0].saved);
  ASSERT_TRUE(op.workspace);
  const auto bytes = [](const ProductTerm& term) { return term.coefficient; };
  EXPECT_EQ(bytes(op.saved_extra_bytes.at(0)) +
                static_cast<double>(op.workspace->backward) * bytes(op.workspace->row_bytes),
            12);
  EXPECT_EQ(op.workspace->forward, 1);
  EXPECT_EQ(op.workspace->one_more_if_split, op.factor("v"));
  EXPECT_TRUE(op.workspace->makes_room);
  EXPECT_EQ(refusal([&] {
              (void)t.op("cross_entropy", {t.x({4, 7, 9}), t.words({4, 7})},
                         {{"keep_softmax", 1}, {"keep_log_softmax", 1}});
            }),
            "operator \"op1\" (cross_entropy): keep_softmax and keep_log_softmax exclude each other");
}

TEST(LinearCrossEntropy, MakesLogitsAgainInsteadOfKeepingThem) {
  Bench t;
  EXPECT_EQ(Description::of(t.op("linear_cross_entropy", {t.x({4, 7, 8}), t.words({4, 7})},
                                 {{"out", 9}, {"chunks", 2}, {"bias", 1}, {"transpose_weight", 1}})),
            R"(factors b:S4 s:A7~ h:R8! v:P9~
input [b, s, h] saved passes 1, 2
index [b, s] saved v:same
weight [v, h] passes 2, 4
weight [v]
output [] v:same
inner F max over v: bs of 4 bytes after 0.978
inner F sum over v: 2bs of 4 bytes after 0.989
flops F 2bsvh + bsv + 4bsv; B 2bsvh + bsv + 4bsvh + 4bsv; W 0
again B 2bsvh + bsv
saves 4bs bytes
scratch of bs rows in 2 parts, 4v bytes a row
moves F 12bsv bytes
moves B 20bsv + 8hv bytes
matrix bs x h x v
)");
}

}  // namespace
}  // namespace pipesim

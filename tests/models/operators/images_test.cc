#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

// These tests are like those of computing_test.cc, for kinds over sequences, images and volumes.

std::string described(const std::string& kind, const Sizes& shape, const Attributes& attributes = {}) {
  Bench t;
  return Description::of(t.op(kind, {t.x(shape)}, attributes));
}

TEST(Conv1d, PadsEitherEndByItself) {
  EXPECT_EQ(described("conv1d", {4, 8, 10}, {{"out", 4}, {"kernel", 3}, {"pad", 2}, {"pad_end", 0}}),
            R"(factors n:S4 o:P4 i:R8 w:A10~
input [n, i, w*1/3] saved
weight [o, i, 3]
weight [o] i:once
output [n, o, w]
flops F 6noiw + now; B 6noiw; W 6noiw + now
matrix nw x 3i x o
)");
}

TEST(Conv3d, SlidesOverVolumes) {
  EXPECT_EQ(described("conv3d", {4, 4, 5, 6, 4},
                      {{"out", 6}, {"kernel", Sizes{3, 2, 3}}, {"pad", 1}, {"groups", 2}}),
            R"(factors n:S4 g:P2 o:P3 i:R2 d:A5~ h:A7~ w:A4~
input [n, (g·i), d*1/3, h*1/2, w*1/3] saved
weight [(g·o), i, 3, 2, 3]
weight [(g·o)] i:once
output [n, (g·o), d, h, w]
flops F 36ngoidhw + ngodhw; B 36ngoidhw; W 36ngoidhw + ngodhw
matrix ndhw x 18i x o for each g
)");
}

TEST(ConvTranspose2d, CutsBetweenBlocksOfResults) {
  EXPECT_EQ(
      described("conv_transpose2d", {4, 4, 6, 8}, {{"out", 4}, {"kernel", 4}, {"stride", 2}, {"pad", 1}}),
      R"(factors n:S4 o:P4 i:R4 h:A6~ w:A8~
input [n, i, h*1/3, w*1/3] saved
weight [i, o, 4, 4]
weight [o] i:once
output [n, o, h*2/2, w*2/2]
flops F 32noihw + 4nohw; B 32noihw; W 32noihw + 4nohw
matrix nhw x i x 16o
)");
}

TEST(ConvTranspose2d, NeedsNoNeighboursWhereKernelsDoNotOverlap) {
  EXPECT_EQ(described("conv_transpose2d", {4, 4, 6, 8},
                      {{"out", 4}, {"kernel", 2}, {"stride", 2}, {"activation", "relu"}}),
            R"(factors n:S4 o:P4 i:R4! h:A6~ w:A8~
input [n, i, h*1/1, w*1/1] saved
weight [i, o, 2, 2]
weight [o] i:once
output [n, o, h*2/2, w*2/2] saved
flops F 8noihw + 4nohw + 4nohw; B 8noihw + 4nohw; W 8noihw + 4nohw
matrix nhw x i x 4o
)");
}

TEST(ConvTranspose1d, KeepsWhatItsActivationNeedsOfWholeBlocks) {
  EXPECT_EQ(described("conv_transpose1d", {4, 8, 10},
                      {{"out", 6}, {"kernel", 5}, {"stride", 3}, {"output_pad", 2}, {"activation", "gelu"}}),
            R"(factors n:S4 o:P6 i:R8! w:A12~
input [n, i, w*1/2] saved
weight [i, o, 5]
weight [o] i:once
output [n, o, w*3/3]
flops F 10noiw + 3now + 24now; B 10noiw + 24now; W 10noiw + 3now
saves 12now bytes
matrix nw x i x 5o
)");
}

TEST(ConvTranspose3d, FollowsGroupsAloneWhenDepthwise) {
  EXPECT_EQ(described("conv_transpose3d", {4, 4, 5, 6, 4},
                      {{"out", 4}, {"kernel", 2}, {"stride", Sizes{2, 1, 3}}, {"groups", 4}, {"bias", 0}}),
            R"(factors n:S4 g:P4 d:A5~ h:A7~ w:A4~
input [n, g, d*1/1, h*1/2, w*1/1] saved
weight [g, 1, 2, 2, 2]
output [n, g, d*2/2, h, w*3/3]
flops F 16ngdhw; B 16ngdhw; W 16ngdhw
matrix ndhw x 1 x 8 for each g
)");
}

TEST(Pool1d, PadsEitherEndByItself) {
  EXPECT_EQ(described("pool1d", {4, 8, 10}, {{"kernel", 3}, {"stride", 2}, {"pad", 1}, {"pad_end", 0}}),
            R"(factors n:S4 c:P8 w:A5~
input [n, c, w*2/3]
output [n, c, w]
flops F 3ncw; B ncw; W 0
saves ncw bytes
)");
}

TEST(Pool3d, KeepsWhichElementWasTheLargest) {
  EXPECT_EQ(described("pool3d", {4, 4, 5, 6, 4}, {{"kernel", 2}, {"ceil", 1}}),
            R"(factors n:S4 c:P4 d:A3~ h:A3~ w:A2~
input [n, c, d*2/2, h*2/2, w*2/2]
output [n, c, d, h, w]
flops F 8ncdhw; B ncdhw; W 0
saves ncdhw bytes
)");
}

TEST(AdaptivePool, CutsWhereNoWindowLiesAcross) {
  EXPECT_EQ(described("adaptive_pool", {4, 8, 6, 8}, {{"out", Sizes{4, 3}}}), R"(factors n:S4 c:P8 h:A2~ w:A1~
input [n, c, h*3/3, w*8/8]
output [n, c, h*2/2, w*3/3]
flops F 40nchw; B 40nchw; W 0
)");
}

TEST(AdaptivePool, KeepsWhichElementWasTheLargest) {
  EXPECT_EQ(described("adaptive_pool", {4, 8, 10}, {{"out", 4}, {"mode", "max"}}), R"(factors n:S4 c:P8 w:A2~
input [n, c, w*5/5]
output [n, c, w*2/2]
flops F 6ncw; B 2ncw; W 0
saves 2ncw bytes
)");
}

TEST(Resize, OnlyMovesTheNearestElements) {
  EXPECT_EQ(described("resize", {4, 8, 6, 8}, {{"out", Sizes{12, 4}}}), R"(factors n:S4 c:P8 h:A6~ w:A4~
input [n, c, h, w*2/2]
output [n, c, h*2/2, w]
flops F 0; B 2nchw; W 0
)");
}

TEST(Resize, ReadsNeighboursToInterpolate) {
  EXPECT_EQ(described("resize", {4, 8, 6, 8}, {{"out", Sizes{9, 12}}, {"mode", "linear"}}),
            R"(factors n:S4 c:P8 h:A3~ w:A4~
input [n, c, h*2/4, w*2/4]
output [n, c, h*3/3, w*3/3]
flops F 72nchw; B 72nchw; W 0
)");
}

TEST(Resize, ReadsTwoOnEitherSideForCubics) {
  EXPECT_EQ(described("resize", {4, 8, 10}, {{"out", 15}, {"mode", "cubic"}}), R"(factors n:S4 c:P8 w:A5~
input [n, c, w*2/6]
output [n, c, w*3/3]
flops F 24ncw; B 24ncw; W 0
)");
}

TEST(Resize, AlignsCornersOfWholeImagesOnly) {
  EXPECT_EQ(described("resize", {4, 8, 10}, {{"out", 15}, {"mode", "cubic"}, {"align_corners", 1}}),
            R"(factors n:S4 c:P8 w:A1~
input [n, c, w*10/10]
output [n, c, w*15/15]
flops F 120ncw; B 120ncw; W 0
)");
}

TEST(GroupNorm, AgreesOnStatisticsOfEachGroup) {
  EXPECT_EQ(described("group_norm", {4, 8, 9, 7}, {{"groups", 4}}), R"(factors n:S4 g:P4 c:P2 h:A9~ w:A7~
input [n, (g·c), h, w] saved
weight [(g·c)]
weight [(g·c)]
output [n, (g·c), h, w]
inner F sum over c,h,w: 2ng of 8 bytes after 0.429
inner B sum over c,h,w: 2ng of 8 bytes after 0.455
flops F 7ngchw; B 11ngchw; W 0
saves 8ng bytes
)");
}

TEST(GroupNorm, NormalisesInstances) {
  EXPECT_EQ(described("group_norm", {4, 8, 9, 7}, {{"groups", 8}}), R"(factors n:S4 g:P8 h:A9~ w:A7~
input [n, g, h, w] saved
weight [g]
weight [g]
output [n, g, h, w]
inner F sum over h,w: 2ng of 8 bytes after 0.429
inner B sum over h,w: 2ng of 8 bytes after 0.455
flops F 7nghw; B 11nghw; W 0
saves 8ng bytes
)");
}

TEST(GroupNorm, MayHaveNoWeights) {
  EXPECT_EQ(described("group_norm", {4, 8, 9, 7}, {{"groups", 1}, {"affine", 0}}),
            R"(factors n:S4 c:P8 h:A9~ w:A7~
input [n, c, h, w] saved
output [n, c, h, w]
inner F sum over c,h,w: 2n of 8 bytes after 0.429
inner B sum over c,h,w: 2n of 8 bytes after 0.455
flops F 7nchw; B 11nchw; W 0
saves 8n bytes
)");
}

TEST(BatchNorm, NormalisesRows) {
  EXPECT_EQ(described("batch_norm", {4, 8}), R"(factors b:S4 h:P8
input [b, h] saved passes 2, 2
weight [h]
weight [h]
state [h] b:same
state [h] b:same
output [b, h] passes 1, 2
inner F sum over b: 2h of 8 bytes after 0.429
inner B sum over b: 2h of 8 bytes after 0.364
flops F 7bh; B 11bh; W 0
saves 8h bytes
)");
}

std::string refused(const std::string& kind, const Sizes& shape, const Attributes& attributes) {
  return refusal<InputError>([&] { described(kind, shape, attributes); });
}

TEST(ImageKinds, LeaveOutAttributesThatChangeNothing) {
  Bench t;
  const TensorId image = t.x({4, 8, 9, 7});
  const Operator plain = t.op("conv2d", {image}, {{"out", 4}, {"kernel", 3}, {"pad", 1}});
  EXPECT_FALSE(plain.attributes.contains("pad_end"));
  const Operator same = t.op("conv2d", {image}, {{"out", 4}, {"kernel", 3}, {"pad", 1}, {"pad_end", 1}});
  EXPECT_EQ(same.attributes, plain.attributes);
  const Operator other = t.op("conv2d", {image}, {{"out", 4}, {"kernel", 3}, {"pad_end", 1}});
  EXPECT_EQ(other.attributes.at("pad_end"), AttributeValue(Sizes{1, 1}));
  const Operator pool = t.op("pool2d", {image}, {{"kernel", 2}, {"exclude_pad", 0}});
  EXPECT_FALSE(pool.attributes.contains("exclude_pad") || pool.attributes.contains("pad_end"));
}

TEST(ImageKinds, SayWhichShapesTheyTake) {
  EXPECT_EQ(refused("conv1d", {4, 8}, {{"out", 4}, {"kernel", 3}}),
            "operator \"op0\" (conv1d): input 0 has shape [4, 8], allowed: [n, c, w]");
  EXPECT_EQ(refused("conv3d", {4, 8, 5, 6, 7}, {{"out", 4}, {"kernel", Sizes{3, 3}}}),
            "operator \"op0\" (conv3d): attribute \"kernel\" is [3, 3], allowed: [planes, rows, columns]");
  EXPECT_EQ(refused("conv1d", {4, 8, 5}, {{"out", 4}, {"kernel", 9}, {"pad", 1}, {"pad_end", 2}}),
            "operator \"op0\" (conv1d): input 0 has shape [4, 8, 5], too small for kernel [9] with pad [1], "
            "[2] behind and dilation [1]");
  EXPECT_EQ(refused("conv_transpose1d", {4, 8, 2}, {{"out", 4}, {"kernel", 2}, {"pad", 2}}),
            "operator \"op0\" (conv_transpose1d): input 0 has shape [4, 8, 2], too small for kernel [2] with "
            "pad [2]");
  EXPECT_EQ(refused("conv_transpose2d", {4, 8, 2, 2}, {{"out", 4}, {"kernel", 2}, {"groups", 3}}),
            "operator \"op0\" (conv_transpose2d): input 0 has shape [4, 8, 2, 2] and \"out\" is 4, allowed: "
            "channels that 3 groups divide");
  EXPECT_EQ(refused("pool1d", {4, 8, 9}, {{"kernel", 2}, {"pad_end", 2}}),
            "operator \"op0\" (pool1d): \"pad_end\" is [2] and \"kernel\" [2], allowed: less pad than "
            "kernel, so that no window is all pad");
  EXPECT_EQ(
      refused("adaptive_pool", {4, 8}, {{"out", 1}}),
      "operator \"op0\" (adaptive_pool): input 0 has shape [4, 8], allowed: [n, c, w] to [n, c, d, h, w]");
  EXPECT_EQ(refused("adaptive_pool", {4, 8, 9}, {{"out", Sizes{3, 3}}}),
            "operator \"op0\" (adaptive_pool): attribute \"out\" is [3, 3], allowed: [columns]");
  EXPECT_EQ(
      refused("resize", {4, 8, 9}, {{"out", 3}, {"align_corners", 1}}),
      "operator \"op0\" (resize): \"align_corners\" is 1 and \"mode\" \"nearest\", allowed: linear or cubic");
  EXPECT_EQ(
      refused("group_norm", {4, 8, 9}, {{"groups", 3}}),
      "operator \"op0\" (group_norm): input 0 has shape [4, 8, 9], allowed: channels that 3 groups divide");
  EXPECT_EQ(
      refused("group_norm", {4, 8}, {{"groups", 8}}),
      "operator \"op0\" (group_norm): input 0 has shape [4, 8], allowed: groups of more than an element");
  EXPECT_EQ(refused("batch_norm", {4}, {}),
            "operator \"op0\" (batch_norm): input 0 has shape [4], allowed: [n, c] to [n, c, d, h, w]");
}

}  // namespace
}  // namespace pipesim

#include "costmodel/matrix_efficiency.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

TEST(MatrixSize, OfBackwardIsTheTransposedProduct) {
  MatrixShape shape;
  shape.batch = {0}, shape.rows = {1}, shape.columns = {2}, shape.inner = {3};
  shape.inner_times = 9;
  std::vector<Range> ranges{{0, 2}, {10, 13}, {0, 5}, {4, 11}};
  EXPECT_EQ(matrix_size(shape, Pass::Forward, ranges), (MatrixSize{2, 3, 5, 63}));
  EXPECT_EQ(matrix_size(shape, Pass::BackwardInput, ranges), (MatrixSize{2, 3, 63, 5}));
  EXPECT_EQ(matrix_size(shape, Pass::BackwardWeight, ranges), (MatrixSize{2, 63, 5, 3}));
}

TEST(MatrixEfficiency, OfLargeAlignedProductsIsNearlyOne) {
  EXPECT_NEAR(matrix_efficiency({1, 4096, 4096, 4096}), 1, 0.01);
  EXPECT_LE(matrix_efficiency({1, 1 << 20, 1 << 20, 1 << 20}), 1);
}

TEST(MatrixEfficiency, FallsWhereTilesOverhang) {
  EXPECT_LT(matrix_efficiency({1, 129, 4096, 4096}), 0.8 * matrix_efficiency({1, 256, 4096, 4096}));
  EXPECT_LT(matrix_efficiency({1, 4096, 16, 4096}), 0.5 * matrix_efficiency({1, 4096, 64, 4096}));
  EXPECT_GT(matrix_efficiency({1, 4097, 4096, 4096}), 0.96);
}

TEST(MatrixEfficiency, FallsWithAShortInnerDimension) {
  EXPECT_DOUBLE_EQ(matrix_efficiency({1, 4096, 4096, 32}), 0.5);
}

TEST(MatrixEfficiency, NeverFallsBelowAKernelWithoutMatrixUnits) {
  EXPECT_DOUBLE_EQ(matrix_efficiency({64, 3136, 1, 9}), 1.0 / 16);  // a depthwise convolution
}

}  // namespace
}  // namespace pipesim

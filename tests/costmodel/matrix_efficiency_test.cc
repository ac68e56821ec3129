#include "costmodel/matrix_efficiency.h"

#include <gmock/gmock.h>

#include "topologies/device_kinds.h"

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

double on_matrix_units(MatrixSize size) { return matrix_efficiency(size, MatrixUnits::Matrix); }
double on_plain_units(MatrixSize size) { return matrix_efficiency(size, MatrixUnits::Plain); }

TEST(MatrixEfficiency, OfLargeAlignedProductsIsNearlyOne) {
  EXPECT_NEAR(on_matrix_units({1, 4096, 4096, 4096}), 1, 0.01);
  EXPECT_NEAR(on_plain_units({1, 4096, 4096, 4096}), 1, 0.01);
  EXPECT_LE(on_matrix_units({1, 1 << 20, 1 << 20, 1 << 20}), 1);
  EXPECT_LE(on_plain_units({1, 1 << 20, 1 << 20, 1 << 20}), 1);
}

TEST(MatrixEfficiency, FallsWhereTilesOverhang) {
  EXPECT_LT(on_matrix_units({1, 129, 4096, 4096}), 0.8 * on_matrix_units({1, 256, 4096, 4096}));
  EXPECT_LT(on_matrix_units({1, 4096, 16, 4096}), 0.5 * on_matrix_units({1, 4096, 64, 4096}));
  EXPECT_GT(on_matrix_units({1, 4097, 4096, 4096}), 0.96);
}

TEST(MatrixEfficiency, FallsWithAShortInnerDimension) {
  EXPECT_DOUBLE_EQ(on_matrix_units({1, 4096, 4096, 32}), 0.5);
  EXPECT_DOUBLE_EQ(on_plain_units({1, 4096, 4096, 8}), 0.5);
}

TEST(MatrixEfficiency, NeverFallsBelowAKernelWithoutTiles) {
  EXPECT_DOUBLE_EQ(on_matrix_units({64, 3136, 1, 9}), 1.0 / 16);  // a depthwise convolution
  EXPECT_DOUBLE_EQ(on_plain_units({64, 3136, 1, 9}), 0.25);
}

TEST(MatrixEfficiency, PlainUnitsLoseLessToSmallTiles) {
  for (const std::int64_t rows : {8, 16, 32, 64}) {
    EXPECT_GT(on_plain_units({1, rows, 4096, 4096}), on_matrix_units({1, rows, 4096, 4096})) << rows;
  }
}

TEST(MatrixUnits, AreToldByTheRate) {
  const DeviceKind& p100 = *find_built_in_device_kind("P100-SXM2");
  const DeviceKind& v100 = *find_built_in_device_kind("V100-SXM2-16GB");
  EXPECT_EQ(matrix_units(p100, DataType::Float16), MatrixUnits::Plain);
  EXPECT_EQ(matrix_units(v100, DataType::Float16), MatrixUnits::Matrix);
  EXPECT_EQ(matrix_units(v100, DataType::Float32), MatrixUnits::Plain);
}

}  // namespace
}  // namespace pipesim

#include "executor/communication/reduction.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "executor/elements/small_floats.h"

namespace pipesim {
namespace {

template <class T>
std::vector<T> reduced(DataType type, ReduceOperation operation, const std::vector<std::vector<T>>& addends) {
  std::vector<const void*> pointers;
  for (const auto& addend : addends) pointers.push_back(addend.data());
  std::vector<T> result(addends[0].size());
  reduce_in_order(pointers, result.data(), static_cast<std::int64_t>(result.size()), type, operation);
  return result;
}

TEST(SmallFloats, Float16IsReadAndWrittenBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_float16(half);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const auto fraction = static_cast<float>(bits & 1023);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction > 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
      if (fraction > 0) continue;
    } else {
      const float magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1 + fraction / 1024, exponent - 15);
      EXPECT_EQ(std::abs(value), magnitude) << bits;
    }
    EXPECT_EQ(to_float16(value), half);
  }
}

TEST(SmallFloats, RoundToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (from_float16(low) + from_float16(high)) / 2;
    EXPECT_EQ(to_float16(middle), bits % 2 == 0 ? low : high);
    EXPECT_EQ(to_float16(std::nextafter(middle, 0.0F)), low);
    EXPECT_EQ(to_float16(std::nextafter(middle, 1e9F)), high);
    EXPECT_EQ(to_float16(-middle), 0x8000U | (bits % 2 == 0 ? low : high));
  }
  EXPECT_EQ(to_float16(65519.996F), 0x7bff);
  EXPECT_EQ(to_float16(65520.0F), 0x7c00);
  EXPECT_EQ(to_bfloat16(1.00390625F), 0x3f80);  // halfway between 1 and its neighbour
  EXPECT_EQ(to_bfloat16(std::nextafter(1.00390625F, 2.0F)), 0x3f81);
  EXPECT_EQ(to_bfloat16(1.01171875F), 0x3f82);  // halfway, the neighbour above is even
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(std::bit_cast<float>(0x7fffffffU)))));
  EXPECT_TRUE(std::isnan(from_float16(to_float16(std::nanf("")))));
}

TEST(Reduction, SumsHalvesInFloat) {
  // 2048 + 1 + 1: each sum alone would round to 2048 in float16.
  const std::uint16_t big = to_float16(2048);
  const std::uint16_t one = to_float16(1);
  EXPECT_EQ(reduced<std::uint16_t>(DataType::Float16, ReduceOperation::Sum, {{big}, {one}, {one}}),
            std::vector<std::uint16_t>{to_float16(2050)});
}

TEST(Reduction, GoesFromLeftToRight) {
  EXPECT_EQ(reduced<float>(DataType::Float32, ReduceOperation::Sum, {{1e8F}, {1.0F}, {-1e8F}}),
            std::vector<float>{0.0F});
  EXPECT_EQ(reduced<float>(DataType::Float32, ReduceOperation::Sum, {{1e8F}, {-1e8F}, {1.0F}}),
            std::vector<float>{1.0F});
}

TEST(Reduction, IntegersWrapAround) {
  EXPECT_EQ(reduced<std::uint8_t>(DataType::UInt8, ReduceOperation::Sum, {{200}, {100}}),
            std::vector<std::uint8_t>{44});
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduced<std::int64_t>(DataType::Int64, ReduceOperation::Sum, {{most}, {1}}),
            std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()});
  EXPECT_EQ(reduced<std::int32_t>(DataType::Int32, ReduceOperation::Max, {{-5}, {-3}, {-4}}),
            std::vector<std::int32_t>{-3});
}

TEST(Reduction, MaximumWithNaNIsNaN) {
  const float nan = std::nanf("");
  const auto result =
      reduced<float>(DataType::Float32, ReduceOperation::Max, {{1, nan, 1}, {nan, 2, 3}, {5, 6, 2}});
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_EQ(result[2], 3);
}

}  // namespace
}  // namespace pipesim

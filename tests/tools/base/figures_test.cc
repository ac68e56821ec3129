#include "tools/base/figures.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

TEST(Figures, CountsHaveThreeDigits) {
  EXPECT_EQ(pretty_count(0), "0");
  EXPECT_EQ(pretty_count(999), "999");
  EXPECT_EQ(pretty_count(9408), "9.41 k");
  EXPECT_EQ(pretty_count(25'557'032), "25.6 M");
  EXPECT_EQ(pretty_count(999'600), "1 M");
  EXPECT_EQ(pretty_count(175'000'000'000), "175 B");
}

TEST(Figures, RatesKeepAllDigitsBeforeThePoint) {
  EXPECT_EQ(pretty_rate(7097.26), "7097 samples/s");
  EXPECT_EQ(pretty_rate(123456.7), "123457 samples/s");
  EXPECT_EQ(pretty_rate(0.012345), "0.01235 samples/s");
}

TEST(Figures, PlansAreAsFastOrFasterByAFewPercentOrSoManyTimes) {
  EXPECT_EQ(faster_than("expert", 1), "as fast as expert");
  EXPECT_EQ(faster_than("expert", 1.0004), "as fast as expert");
  EXPECT_EQ(faster_than("expert", 1.003), "0.3 % faster than expert");
  EXPECT_EQ(faster_than("expert", 1.0994), "9.9 % faster than expert");
  EXPECT_EQ(faster_than("expert", 1.3), "1.3 times as fast as expert");
  EXPECT_EQ(faster_than("expert", 12345), "12345 times as fast as expert");
  EXPECT_EQ(faster_than("expert", 1 / 1.003), "0.3 % slower than expert");
  EXPECT_EQ(faster_than("expert", 0.5), "2 times as long as expert");
}

TEST(Figures, WorkAndShares) {
  EXPECT_EQ(pretty(Flops(0)), "0 FLOP");
  EXPECT_EQ(pretty(Flops(8.178e9)), "8.18 GFLOP");
  EXPECT_EQ(pretty(Flops(4.59e17)), "459 PFLOP");
  EXPECT_EQ(percent(0.125), "12.5 %");
  EXPECT_EQ(percent(1), "100.0 %");
}

}  // namespace
}  // namespace pipesim

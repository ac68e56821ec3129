#include "tools/figures.h"

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

TEST(Figures, WorkAndShares) {
  EXPECT_EQ(pretty(Flops(0)), "0 FLOP");
  EXPECT_EQ(pretty(Flops(8.178e9)), "8.18 GFLOP");
  EXPECT_EQ(pretty(Flops(4.59e17)), "459 PFLOP");
  EXPECT_EQ(percent(0.125), "12.5 %");
  EXPECT_EQ(percent(1), "100.0 %");
}

}  // namespace
}  // namespace pipesim

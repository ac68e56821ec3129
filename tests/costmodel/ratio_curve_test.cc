#include "costmodel/ratio_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pipesim {
namespace {

using enum DurationSource;

TEST(RatioCurve, IsOneWithoutPoints) {
  EXPECT_EQ(RatioCurve().at(5).ratio, 1);
  EXPECT_EQ(RatioCurve().at(5).source, Analytic);
}

TEST(RatioCurve, IsExactForPowersOfTheSize) {
  std::vector<RatioCurve::Point> points;
  for (const double size : {1.0, 8.0, 64.0}) points.push_back({size, 3 * std::pow(size, -0.25)});
  const RatioCurve curve(points);
  for (const double size : {2.0, 8.0, 10.0, 63.0})
    EXPECT_NEAR(curve.at(size).ratio, 3 * std::pow(size, -0.25), 1e-12) << size;
  EXPECT_EQ(curve.at(10).source, Interpolated);
  EXPECT_EQ(curve.at(8).source, Measured);
}

TEST(RatioCurve, KeepsTheNearestRatioBeyondThePoints) {
  const RatioCurve curve({{10, 2}, {100, 5}});
  EXPECT_DOUBLE_EQ(curve.at(1).ratio, 2);
  EXPECT_DOUBLE_EQ(curve.at(1e9).ratio, 5);
  EXPECT_EQ(curve.at(1).source, Extrapolated);
  EXPECT_EQ(curve.at(1e9).source, Extrapolated);
}

TEST(RatioCurve, TakesTheGeometricMeanOfEqualSizes) {
  EXPECT_DOUBLE_EQ(RatioCurve({{10, 1}, {10, 4}, {20, 1}}).at(10).ratio, 2);
}

}  // namespace
}  // namespace pipesim

#include "search/mcmc/cycle.h"

#include <gmock/gmock.h>

#include <cmath>

#include "search/annealing/cooling.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::Ge;
using testing::Gt;

TEST(Cooling, BeginsAtEqualRatiosAndEndsTogether) {
  const Cooling cooling{1e-3, 8e-3, 1e-4};
  for (std::size_t rung = 0; rung < 4; ++rung) {
    EXPECT_THAT(cooling.temperature(1, rung, 4, 0), DoubleNear(1e-3 * (1 << rung), 1e-12));
    EXPECT_THAT(cooling.temperature(1, rung, 4, 1), DoubleNear(1e-4, 1e-12));
    EXPECT_THAT(cooling.temperature(1, rung, 4, 0.2), Gt(cooling.temperature(1, rung, 4, 0.3)));
  }
  EXPECT_THAT(cooling.temperature(1, 3, 4, 0.5), DoubleNear(std::sqrt(8e-3 * 1e-4), 1e-12));
}

TEST(Cooling, NeverBeginsBelowItsEndNorAboveATenthOfTheCost) {
  const Cooling cooling{1e-3, 8e-3, 1e-4};
  EXPECT_DOUBLE_EQ(cooling.temperature(0.5, 0, 4, 0), 5e-4);
  EXPECT_DOUBLE_EQ(cooling.temperature(0.001, 0, 4, 0), 1e-4);
  EXPECT_DOUBLE_EQ(cooling.temperature(0.001, 0, 4, 0.5), 1e-4);
  EXPECT_DOUBLE_EQ(cooling.temperature(1000, 3, 4, 0), 0.1);
}

TEST(Cooling, OneChainBeginsAtTheColdest) {
  EXPECT_DOUBLE_EQ((Cooling{1e-3, 8e-3, 1e-4}.temperature(1, 0, 1, 0)), 1e-3);
}

TEST(Cycle, EachIsAtLeastAsLongAsTheOneBefore) {
  for (const Grain grain : {Grain::Repeats, Grain::Operators}) {
    for (std::int64_t n = 1; n < 100; ++n) {
      const Cycle before = nth_cycle(grain, n - 1, 8), cycle = nth_cycle(grain, n, 8);
      EXPECT_EQ(cycle.grain, grain);
      EXPECT_THAT(cycle.rounds, Ge(before.rounds));
      EXPECT_THAT(cycle.chains, Ge(before.chains));
    }
    EXPECT_EQ(nth_cycle(grain, 0, 8).chains, 2U);
    EXPECT_EQ(nth_cycle(grain, 99, 8).chains, 8U);
    EXPECT_EQ(nth_cycle(grain, 0, 1).chains, 1U);
    EXPECT_FALSE(nth_cycle(grain, 0, 8).over());
  }
}

TEST(Cycle, IsCoolerAfterMostChainsEndedAboveWhereTheyBegan) {
  const double heat = next_heat(0.5, {1, 1, 1, 1}, {2, 2, 2, 1}, true);
  EXPECT_THAT(0.5, Gt(heat));
  EXPECT_DOUBLE_EQ(next_heat(heat, {1, 1, 1, 1}, {2, 2, 1, 0.5}, true), 0.5);
  double coldest = 1;
  for (int i = 0; i < 2000; ++i) coldest = next_heat(coldest, {1}, {2}, false);
  EXPECT_THAT(coldest, Gt(0));
}

TEST(Cycle, IsHotterThanItsCoolingOnlyWhileNothingIsGained) {
  EXPECT_DOUBLE_EQ(next_heat(1, {1, 1}, {1, 1}, true), 1);
  EXPECT_DOUBLE_EQ(next_heat(7, {1, 1}, {1, 1}, true), 7);
  EXPECT_THAT(next_heat(1, {1, 1}, {1, 1}, false), Gt(1));
  double hottest = 1;
  for (int i = 0; i < 2000; ++i) hottest = next_heat(hottest, {1}, {1}, false);
  EXPECT_TRUE(std::isfinite(hottest));
}

}  // namespace
}  // namespace pipesim

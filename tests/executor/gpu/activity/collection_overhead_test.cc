#include "executor/gpu/activity/collection_overhead.h"

#include <gmock/gmock.h>

#include <vector>

#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::StartsWith;
using Times = std::vector<Nanoseconds>;

TEST(CollectionOverhead, IsTheMedianOfThePairs) {
  // The machine gets twice as slow half-way: the pairs differ by 1, 2, 3, 4 and 10 % all the same.
  const Times without = {1000, 1000, 2000, 2000, 2000}, with = {1020, 1010, 2200, 2080, 2060};
  const CollectionOverhead cost = collection_overhead(without, with);
  EXPECT_EQ(cost.pairs, 5U);
  EXPECT_EQ(cost.without, 2000);
  EXPECT_EQ(cost.with, 2060);
  EXPECT_NEAR(cost.percent, 3, 1e-9);
  EXPECT_NEAR(cost.low, 2, 1e-9);
  EXPECT_NEAR(cost.high, 4, 1e-9);
  EXPECT_EQ(cost.str(), "collection costs 3.0 % of a step (middle half of 5 pairs 2.0 % to 4.0 %)");
}

TEST(CollectionOverhead, BelowZeroIsNoise) {
  EXPECT_NEAR(collection_overhead(Times{1000}, Times{990}).percent, -1, 1e-9);
}

TEST(CollectionOverhead, NeedsPairs) {
  const auto refused = [](const Times& without, const Times& with) {
    return refusal<InternalError>([&] { (void)collection_overhead(without, with); });
  };
  EXPECT_THAT(refused({1, 2}, {1}), StartsWith("2 steps without collection can't be compared with 1"));
  EXPECT_THAT(refused({}, {}), StartsWith("a distribution needs samples above zero"));
  EXPECT_THAT(refused({0}, {1}), StartsWith("a distribution needs samples above zero"));
}

}  // namespace
}  // namespace pipesim

#include "tools/analysis/searching/search_time.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

TEST(SearchTime, LeavesATenthForTheReport) {
  double now = 0;
  const SearchTime time(10, [&now] { return now; });
  EXPECT_TRUE(time.limited());
  EXPECT_DOUBLE_EQ(time.search().left(), 9);
  now = 8.5;
  EXPECT_DOUBLE_EQ(time.search().left(), 0.5);
  EXPECT_DOUBLE_EQ(time.shortened({3, 0}).seconds, 1.5);
  now = 10;
  EXPECT_TRUE(time.search().passed());
  EXPECT_FALSE(time.report().passed());
  EXPECT_DOUBLE_EQ(time.shortened({3, 0}).seconds, 0.2);
  EXPECT_DOUBLE_EQ(time.shortened({0.1, 0}).seconds, 0.1);
  now = 10.8;
  EXPECT_TRUE(time.report().passed());
}

TEST(SearchTime, WithoutALimitNoPartEnds) {
  const SearchTime time(0);
  EXPECT_FALSE(time.limited());
  EXPECT_FALSE(time.search().passed() || time.report().passed());
  EXPECT_EQ(time.shortened({0, 200}).tries, 200);
  EXPECT_EQ(time.shortened({0, 200}).seconds, 0);
}

}  // namespace
}  // namespace pipesim

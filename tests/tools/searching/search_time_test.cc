#include "tools/searching/search_time.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

TEST(SearchTime, GivesEveryPartItsShare) {
  double now = 0;
  bool asked = false;
  SearchTime time(
      10, [&asked] { return asked; }, [&now] { return now; });
  EXPECT_TRUE(time.limited());
  EXPECT_DOUBLE_EQ(time.baselines().left(), 5);
  EXPECT_DOUBLE_EQ(time.lower_bound().left(), 1);
  EXPECT_DOUBLE_EQ(time.search().left(), 9);
  time.keep_for_report(100);
  EXPECT_DOUBLE_EQ(time.search().left(), 7);
  time.keep_for_report(0);
  EXPECT_DOUBLE_EQ(time.search().left(), 9);
  now = 8.5;
  EXPECT_DOUBLE_EQ(time.search().left(), 0.5);
  EXPECT_DOUBLE_EQ(time.baselines().left(), 0.5);
  EXPECT_DOUBLE_EQ(time.shortened({3, 0}).seconds, 1.5);
  now = 10;
  EXPECT_TRUE(time.search().passed());
  EXPECT_FALSE(time.report().passed());
  EXPECT_DOUBLE_EQ(time.shortened({3, 0}).seconds, 0.2);
  EXPECT_DOUBLE_EQ(time.shortened({0.1, 0}).seconds, 0.1);
  asked = true;
  EXPECT_FALSE(time.report().passed());
  now = 10.8;
  EXPECT_TRUE(time.report().passed());
}

TEST(SearchTime, WithoutALimitOnlyRequestsEndParts) {
  bool asked = false;
  const SearchTime time(0, [&asked] { return asked; });
  EXPECT_FALSE(time.limited());
  EXPECT_FALSE(time.baselines().passed() || time.search().passed() || time.report().passed());
  EXPECT_EQ(time.shortened({0, 200}).tries, 200);
  EXPECT_EQ(time.shortened({0, 200}).seconds, 0);
  asked = true;
  EXPECT_TRUE(time.baselines().passed() && time.search().passed());
  EXPECT_FALSE(time.report().passed());
}

}  // namespace
}  // namespace pipesim

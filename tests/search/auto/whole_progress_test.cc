#include "search/auto/whole_progress.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

AutoEntry plan_of(const std::string& name, Nanoseconds time, std::int64_t missing) {
  Evaluation evaluation;
  evaluation.time = time;
  evaluation.overflow = Bytes(missing);
  return {{name, evaluation, 1, "", 0}, JointPlan{}};
}

TEST(WholeProgress, IsOfAllSearchesTogether) {
  SearchProgress last;
  Contributions found;
  WholeProgress whole(
      [&](const SearchProgress& p) {
        last = p;
        return p.proposals < 100;
      },
      found);
  const ProgressCallback first = whole.of("first"), second = whole.of("second");
  SearchProgress told;
  told.proposals = 10;
  told.seconds = 1e6;  // of the search itself
  EXPECT_TRUE(first(told));
  EXPECT_EQ(last.best, 0);
  EXPECT_LT(last.seconds, 1e6);
  told.best = 500;
  EXPECT_TRUE(second(told));
  EXPECT_EQ(last.proposals, 20);
  EXPECT_EQ(last.best, 500);
  found.add(plan_of("too large", 100, 1));
  EXPECT_TRUE(second(told));
  EXPECT_EQ(last.best, 500);
  found.add(plan_of("planner", 300, 0));
  told.proposals = 95;
  EXPECT_FALSE(first(told));
  EXPECT_EQ(last.proposals, 105);
  EXPECT_EQ(last.best, 300);
}

}  // namespace
}  // namespace pipesim

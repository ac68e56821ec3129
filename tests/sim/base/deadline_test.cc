#include "sim/base/deadline.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace pipesim {
namespace {

TEST(Deadline, PassesAtItsTimeOrWhenSomebodyAsks) {
  double now = 100;
  bool asked = false;
  const Deadline deadline(
      5, [&now] { return now; }, [&asked] { return asked; });
  EXPECT_TRUE(deadline.limited());
  EXPECT_EQ(deadline.left(), 5);
  EXPECT_FALSE(deadline.passed());
  const Deadline sooner = deadline.within(2), no_later = deadline.within(9);
  now = 102;
  EXPECT_TRUE(sooner.passed());
  EXPECT_FALSE(no_later.passed());
  EXPECT_EQ(no_later.left(), 3);
  asked = true;
  EXPECT_TRUE(deadline.passed());
  const Deadline nobody = deadline.with_stop({});
  EXPECT_FALSE(nobody.passed());
  now = 105;
  EXPECT_TRUE(nobody.passed());
  EXPECT_EQ(nobody.left(), 0);
}

TEST(Deadline, WithoutTimeOrRequestsNeverPasses) {
  const Deadline never;
  EXPECT_FALSE(never.limited());
  EXPECT_FALSE(never.passed());
  EXPECT_EQ(never.left(), std::numeric_limits<double>::infinity());
  EXPECT_FALSE(never.within(std::numeric_limits<double>::infinity()).limited());
  EXPECT_FALSE(Deadline(std::numeric_limits<double>::infinity(), [] { return 1e300; }).passed());
}

TEST(Deadline, IsKeptByOneThreadUntilTheEndOfItsScope) {
  const Deadline late(0, [] { return 0.0; }), never;
  EXPECT_EQ(deadline_kept(), nullptr);
  stop_if_late();
  {
    const KeepTo outer(late);
    EXPECT_THROW(stop_if_late(), OutOfTime);
    std::thread([] { EXPECT_EQ(deadline_kept(), nullptr); }).join();
    {
      const KeepTo inner(never);
      stop_if_late();
    }
    EXPECT_TRUE(is_late());
    const KeepTo none(nullptr);
    EXPECT_FALSE(is_late());
  }
  EXPECT_EQ(deadline_kept(), nullptr);
}

}  // namespace
}  // namespace pipesim

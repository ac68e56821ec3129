#include "executor/ranks/last_resort.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace pipesim {
namespace {

using namespace std::chrono_literals;

void hang_after_failures() {
  LastResort last(1ms);
  last.expect_end("rank 2 (on host a) died");
  last.expect_end("a later failure");
  std::this_thread::sleep_for(60s);
}

TEST(LastResortDeathTest, AProcessThatHangsIsEndedWithTheFirstReason) {
  EXPECT_EXIT(hang_after_failures(), testing::ExitedWithCode(3),
              "pipesim: rank 2 \\(on host a\\) died; this process hangs since, and is ended after 1 ms");
}

TEST(LastResortDeathTest, TheStatusIsTheSameWhereNobodyCanBeTold) {
  const auto hang_unheard = [] {
    close(STDERR_FILENO);
    hang_after_failures();
  };
  EXPECT_EXIT(hang_unheard(), testing::ExitedWithCode(3), "");
}

TEST(LastResortDeathTest, OneThatEndsInTimeIsLeftAlone) {
  const auto end_in_time = [] {
    { LastResort(60s).expect_end("rank 2 (on host a) died"); }
    _exit(5);
  };
  EXPECT_EXIT(end_in_time(), testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace pipesim

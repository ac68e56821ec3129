#include "executor/ranks/shutdown_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace pipesim {
namespace {

using namespace std::chrono_literals;

void hang_after_failures() {
  ShutdownLimit last(1ms);
  last.expect_end("rank 2 (on host a) died");
  last.expect_end("a later failure");
  std::this_thread::sleep_for(60s);
}

TEST(ShutdownLimitDeathTest, AProcessThatHangsIsEndedWithTheFirstReason) {
  EXPECT_EXIT(hang_after_failures(), testing::ExitedWithCode(3),
              "pipesim: rank 2 \\(on host a\\) died; this process hangs since, and is ended after 1 ms");
}

TEST(ShutdownLimitDeathTest, TheStatusIsTheSameWhereNobodyCanBeTold) {
  const auto hang_unheard = [] {
    close(STDERR_FILENO);
    hang_after_failures();
  };
  EXPECT_EXIT(hang_unheard(), testing::ExitedWithCode(3), "");
}

TEST(ShutdownLimitDeathTest, OneThatEndsInTimeIsLeftAlone) {
  const auto end_in_time = [] {
    { ShutdownLimit(60s).expect_end("rank 2 (on host a) died"); }
    _exit(5);
  };
  EXPECT_EXIT(end_in_time(), testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace pipesim

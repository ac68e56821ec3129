#include "tools/cli/searching/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace pipesim {
namespace {

TEST(Interrupt, NotesTheFirstSignalOfAKind) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    EXPECT_FALSE(interrupt.requested());
    std::raise(signal);
    EXPECT_TRUE(interrupt.requested());
  }
}

TEST(InterruptDeathTest, TheSecondEndsTheProgram) {
  const auto twice = [] {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(twice(), testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, AfterItsEndSignalsDoWhatTheyDidBefore) {
  const auto late = [] {
    { const Interrupt interrupt; }
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(late(), testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, LeavesIgnoredSignalsIgnored) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  {
    const Interrupt interrupt;
    std::raise(SIGINT);
    EXPECT_FALSE(interrupt.requested());
  }
  EXPECT_EQ(std::signal(SIGINT, before), SIG_IGN);
}

}  // namespace
}  // namespace pipesim

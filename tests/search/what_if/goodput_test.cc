#include "search/what_if/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The interval is the best one: no other does better by more than the third order that Daly leaves out.
TEST(Goodput, NoOtherIntervalTrainsMore) {
  for (const double write : {1.0, 30.0, 300.0}) {
    const Failures failures{Seconds(50'000 * 3600.0), Seconds(write), Seconds(300)};
    const Goodput best = goodput(failures, 4096);
    EXPECT_DOUBLE_EQ(best.between_failures.value, 50'000 * 3600.0 / 4096);
    for (double factor = 0.2; factor < 5; factor *= 1.1)
      EXPECT_LE(share_that_trains(failures, 4096, best.interval * factor), best.share + 1e-4) << factor;
  }
}

// Failures at random, one by one.
TEST(Goodput, IsWhatATrainingRunSees) {
  const Failures failures{Seconds(1000), Seconds(5), Seconds(20)};
  const double interval = 60, mean = 1000.0 / 10;
  std::mt19937_64 random(1);
  std::exponential_distribution<double> until(1 / mean);
  double time = 0;
  constexpr int kSegments = 200'000;
  for (int done = 0; done < kSegments;) {
    const double failure = until(random);
    if (failure > interval + 5) {
      time += interval + 5;
      ++done;
      continue;
    }
    time += failure;
    // A restart that is hit by a failure begins again.
    for (double again = until(random);; again = until(random)) {
      if (again > 20) break;
      time += again;
    }
    time += 20;
  }
  EXPECT_NEAR(interval * kSegments / time, share_that_trains(failures, 10, Seconds(interval)), 0.005);
}

TEST(Goodput, RefusesTimesThatAreNone) {
  EXPECT_THROW((void)goodput({Seconds(0), Seconds(1), Seconds(1)}, 1), InputError);
  EXPECT_THROW((void)goodput({Seconds(1), Seconds(0), Seconds(1)}, 1), InputError);
  EXPECT_THROW((void)goodput({Seconds(1), Seconds(1), Seconds(-1)}, 1), InputError);
  EXPECT_THROW((void)goodput({Seconds(1), Seconds(1), Seconds(1)}, 0), InputError);
}

}  // namespace
}  // namespace pipesim

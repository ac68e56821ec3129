#include "executor/gpu/bodies/parts/divisor.h"

#include <gtest/gtest.h>

#include "sim/base/rng.h"

namespace pipesim::gpu {
namespace {

constexpr std::int64_t limit = std::int64_t{1} << 31;

void expect_exact(std::int64_t divisor, std::int64_t below, std::int64_t i) {
  EXPECT_EQ(Divisor(divisor, below).quotient(i), i / divisor) << i << " / " << divisor;
}

TEST(Divisor, IsExact) {
  Rng rng(3);
  for (int times = 0; times < 3000; ++times) {
    const std::int64_t divisor = rng.between(1, limit >> rng.below(31));
    for (const std::int64_t i : {std::int64_t{0}, divisor - 1, divisor, limit - 1,
                                 limit / divisor * divisor - 1, rng.between(0, limit - 1)})
      expect_exact(divisor, limit, i);
  }
}

TEST(Divisor, DividesNumbersOfMoreBitsAsTheyAre) {
  Rng rng(4);
  for (int times = 0; times < 1000; ++times) {
    const std::int64_t i = rng.between(0, limit << 20);
    expect_exact(rng.between(1, 1000), limit << 21, i);
    expect_exact(rng.between(1, limit << 20), i + 1, i);
  }
}

}  // namespace
}  // namespace pipesim::gpu

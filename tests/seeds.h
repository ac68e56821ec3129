#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sim/base/rng.h"

namespace pipesim {

/// Whether a sanitizer watches. It makes code five to fifteen times slower, and finds no more in many
/// repetitions than in a few.
#ifdef PIPESIM_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Calls check(rng) for `count` seeds, a quarter of them under sanitizers. A failure prints its seed;
/// PIPESIM_TEST_SEED=SEED runs only that one.
template <class Check>
void for_each_seed(std::uint64_t count, Check check) {
  const char* only = std::getenv("PIPESIM_TEST_SEED");
  const std::uint64_t first = only != nullptr ? std::stoull(only) : 1;
  const std::uint64_t seeds = sanitized ? (count + 3) / 4 : count;
  for (std::uint64_t seed = first; seed < (only != nullptr ? first + 1 : 1 + seeds); ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     fmt::format("replay with PIPESIM_TEST_SEED={}", seed));
    Rng rng(seed);
    check(rng);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace pipesim

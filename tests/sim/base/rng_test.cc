#include "sim/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace pipesim {
namespace {

TEST(Rng, SameSeedSameNumbers) {
  Rng a(42), b(42);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
}

TEST(Rng, StreamsDiffer) {
  const Rng root(1);
  std::set<std::uint64_t> first;
  for (std::uint64_t stream = 0; stream < 1000; ++stream) first.insert(root.split(stream).next());
  EXPECT_EQ(first.size(), 1000u);
  EXPECT_EQ(root.split(3), root.split(3));
}

TEST(Rng, BelowIsUniform) {
  Rng rng(5);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts[rng.below(counts.size())];
  double chi2 = 0;
  for (const int c : counts) chi2 += (c - 10'000.0) * (c - 10'000.0) / 10'000.0;
  EXPECT_LT(chi2, 22.5) << "six degrees of freedom, p = 0.001";
}

TEST(Rng, RangesAreKept) {
  Rng rng(9);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t n = rng.between(-3, 4);
    EXPECT_TRUE(n >= -3 && n <= 4);
    const double u = rng.uniform();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
}

}  // namespace
}  // namespace pipesim

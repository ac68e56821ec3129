#include "costmodel/distribution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(Distribution, QuantilesAreLinearBetweenSamples) {
  const Distribution d({4, 1, 3, 2}, 7);
  EXPECT_EQ(d.median(), Seconds(2.5));
  EXPECT_EQ(d.quantile(0), Seconds(1));
  EXPECT_EQ(d.quantile(1), Seconds(4));
  EXPECT_DOUBLE_EQ(d.quantile(0.1).value, 1.3);
  EXPECT_DOUBLE_EQ(d.noise(), 1.5 / 2.5);
  EXPECT_EQ(d.dropped(), 7);
  EXPECT_EQ(Distribution({5}).quantile(0.3), Seconds(5));
}

TEST(Distribution, MergesSamplesAndCounts) {
  Distribution d({3, 1}, 1);
  d.merge(Distribution({2}, 2));
  EXPECT_EQ(d, Distribution({1, 2, 3}, 3));
}

// The drawn values have the quantiles of the samples, however skewed they are.
TEST(Distribution, DrawsReproduceTheQuantiles) {
  Rng rng(3);
  std::vector<double> seconds, drawn;
  for (int i = 0; i < 1000; ++i) seconds.push_back(1e-4 * std::exp(2 * rng.uniform() + 3 * rng.uniform()));
  const Distribution samples(seconds);
  for (int i = 0; i < 20'000; ++i) drawn.push_back(samples.draw(rng).value);
  const Distribution again(drawn);
  for (const double p : {0.05, 0.25, 0.5, 0.75, 0.95})
    EXPECT_NEAR(again.quantile(p) / samples.quantile(p), 1, 0.05) << p;
}

TEST(Distribution, NeedsSamplesAboveZero) {
  const std::string reason =
      "a distribution needs samples above zero (this is a bug in pipesim, please report it)";
  EXPECT_EQ(refusal<InternalError>([] { Distribution({}); }), reason);
  EXPECT_EQ(refusal<InternalError>([] { Distribution({1, 0}); }), reason);
  EXPECT_EQ(refusal<InternalError>([] { Distribution({NAN}); }), reason);
}

}  // namespace
}  // namespace pipesim

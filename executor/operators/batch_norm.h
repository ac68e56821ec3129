#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "executor/operators/device_code.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// Whether statistics are over all shards; otherwise each shard has its own.
bool synchronises_statistics(const Operator& op);

/// The sizes of a batch_norm shard: x[samples, channels, plane].
struct BatchNormSizes {
  BatchNormSizes(const Operator& op, std::span<const Range> ranges);
  std::int64_t samples = 0, channels = 0, plane = 0;
  double count = 0;  ///< elements of a channel that the statistics are over
};

struct ChannelStatistics {
  double mean = 0, variance = 0;  ///< over `count` elements, divided by that
  double inverse = 0;             ///< 1/σ, with 10⁻⁵ added to the variance
};

/// Computes the statistics from Σx and Σx², in double because squares in float32 lose the variance of
/// off-centre data.
PIPESIM_DEVICE inline ChannelStatistics channel_statistics(double sum, double squares, double count) {
  constexpr double epsilon = 1e-5;
  ChannelStatistics s;
  s.mean = sum / count;
  s.variance = squares / count - s.mean * s.mean;
  if (s.variance < 0) s.variance = 0;
  s.inverse = 1 / std::sqrt(s.variance + epsilon);
  return s;
}

/// Returns the running mean after one more step, whose statistics are `fresh`.
PIPESIM_DEVICE inline float running_mean(float kept, const ChannelStatistics& fresh) {
  return static_cast<float>(0.9 * static_cast<double>(kept) + 0.1 * fresh.mean);
}
/// Returns the running variance, which is unbiased.
PIPESIM_DEVICE inline float running_variance(float kept, const ChannelStatistics& fresh, double count) {
  const double unbiased = fresh.variance * count / (count > 2 ? count - 1 : 1);
  return static_cast<float>(0.9 * static_cast<double>(kept) + 0.1 * unbiased);
}

}  // namespace pipesim

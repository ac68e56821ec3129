#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/base/units.h"

namespace pipesim {

/// Measured durations of one thing: the samples themselves, with no assumption about their distribution.
class Distribution {
 public:
  /// At least one sample, each finite and above zero: InternalError otherwise. `dropped`: samples that were
  /// taken and thrown away as disturbed.
  explicit Distribution(std::vector<double> seconds, std::int64_t dropped = 0);

  [[nodiscard]] Seconds median() const { return quantile(0.5); }
  /// Linear between the sorted samples: quantile(0) is the least, quantile(1) the largest. `p` in [0, 1].
  [[nodiscard]] Seconds quantile(double p) const;
  /// One of the samples, each as likely.
  [[nodiscard]] Seconds draw(Rng& rng) const;
  /// Interquartile range over the median.
  [[nodiscard]] double noise() const;
  [[nodiscard]] const std::vector<double>& sorted_seconds() const { return seconds_; }
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }
  /// Adds the samples of the other.
  void merge(const Distribution& other);
  bool operator==(const Distribution&) const = default;

 private:
  std::vector<double> seconds_;  // ascending
  std::int64_t dropped_ = 0;
};

}  // namespace pipesim

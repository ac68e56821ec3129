#pragma once

#include <cmath>
#include <limits>

#include "executor/device_code.h"

namespace pipesim::gpu {

/// Σ exp(x) = sum · exp(most) of numbers that are seen once, `most` being the largest of them (Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018).
struct ExponentialSum {
  float most = std::numeric_limits<float>::lowest();
  double sum = 0;

  PIPESIM_DEVICE void add(float x) {
    if (x <= most) {
      sum += static_cast<double>(std::exp(x - most));
    } else {
      sum = sum * static_cast<double>(std::exp(most - x)) + 1;
      most = x;
    }
  }
  /// Of what all threads of a team have seen.
  template <class Team>
  [[nodiscard]] PIPESIM_DEVICE ExponentialSum over(Team& team) const {
    const float all = team.max(most);
    return {all, team.sum(sum * static_cast<double>(std::exp(most - all)))};
  }
  [[nodiscard]] PIPESIM_DEVICE double log() const { return static_cast<double>(most) + std::log(sum); }
};

}  // namespace pipesim::gpu

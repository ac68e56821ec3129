#pragma once

#include <cmath>
#include <limits>

#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/operators/device_code.h"

namespace pipesim::gpu {

/// Σ exp(x) = sum · exp(most) of numbers that are seen once, `most` being the largest of them (Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018).
struct ExponentialSum {
  float most = std::numeric_limits<float>::lowest();
  double sum = 0;

  PIPESIM_DEVICE void add(const FloatGroup& group, std::int64_t count) {
    float largest = most;
    for (int k = 0; k < FloatGroup::size; ++k)
      if (k < count && !(group.values[k] <= largest)) largest = group.values[k];
    if (!(largest <= most)) sum *= static_cast<double>(std::exp(most - largest));
    most = largest;
    float own = 0;
    for (int k = 0; k < FloatGroup::size; ++k) own += k < count ? std::exp(group.values[k] - most) : 0.0F;
    sum += static_cast<double>(own);
  }
  /// The sum over what all threads of a team have seen.
  template <class Team>
  [[nodiscard]] PIPESIM_DEVICE ExponentialSum over(Team& team) const {
    const float all = team.max(most);
    return {all, team.sum(sum * static_cast<double>(std::exp(most - all)))};
  }
  [[nodiscard]] PIPESIM_DEVICE double log() const { return static_cast<double>(most) + std::log(sum); }
};

}  // namespace pipesim::gpu

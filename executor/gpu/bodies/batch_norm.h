#pragma once

#include "executor/gpu/bodies/parts/channels.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"
#include "executor/operators/batch_norm.h"

namespace pipesim::gpu {

/// Σx, Σx².
struct ValueTerms {
  static constexpr std::size_t sums = 2;
  Floats x;
  PIPESIM_DEVICE void add(std::array<double, sums>& to, std::int64_t element,
                          std::int64_t /*channel*/) const {
    const auto value = static_cast<double>(x[element]);
    to[0] += value;
    to[1] += value * value;
  }
};

/// The gradient of the value before the fused activation. `kept`: x where needs_input(), else y.
struct GradientBeforeActivation {
  Floats dy, kept;
  Activation activation = Activation::None;
  [[nodiscard]] PIPESIM_DEVICE float operator[](std::int64_t i) const {
    if (activation == Activation::None) return dy[i];
    const float at = kept[i];
    return dy[i] * with_activation(activation, [=]<Activation a>() { return activation_slope<a>(at); });
  }
};

/// Σdy, Σdy · (x − mean).
struct NormGradientTerms {
  static constexpr std::size_t sums = 2;
  Floats x;
  GradientBeforeActivation dy;
  const float* means = nullptr;
  PIPESIM_DEVICE void add(std::array<double, sums>& to, std::int64_t element, std::int64_t channel) const {
    const auto d = static_cast<double>(dy[element]);
    to[0] += d;
    to[1] += d * (static_cast<double>(x[element]) - static_cast<double>(means[channel]));
  }
};

/// Adds up all chunks of each sum, with a team for each.
struct AddChunks {
  const double* partial = nullptr;
  std::int64_t chunks = 1;
  double* sums = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const double sum = sum_of_chunks(team, partial, row, chunks);
    if (team.rank() == 0) sums[row] = sum;
  }
};

/// A channel is normalised by y = (x − mean) · slope + shift. This is in float64, since deep networks magnify
/// what is rounded here, and reading memory takes longer anyway.
struct ChannelScale {
  double mean = 0, slope = 0, shift = 0;
};

/// A team for every channel, from sums of values [2, channels, chunks].
struct NormStatistics {
  const double* sums = nullptr;
  std::int64_t channels = 0, chunks = 1;
  double count = 0;
  Floats gamma, beta, mean_state, variance_state;
  float *means = nullptr, *inverses = nullptr;  ///< kept for backward
  ChannelScale* scales = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t c) const {
    const double sum = sum_of_chunks(team, sums, c, chunks);
    const double squares = sum_of_chunks(team, sums, channels + c, chunks);
    if (team.rank() != 0) return;
    const ChannelStatistics fresh = channel_statistics(sum, squares, count);
    means[c] = static_cast<float>(fresh.mean);
    inverses[c] = static_cast<float>(fresh.inverse);
    scales[c] = {fresh.mean, fresh.inverse * static_cast<double>(gamma[c]), static_cast<double>(beta[c])};
    if (mean_state.present()) mean_state.set(c, running_mean(mean_state[c], fresh));
    if (variance_state.present()) variance_state.set(c, running_variance(variance_state[c], fresh, count));
  }
};

/// y = f(normalised x); `before`, where present, keeps what f is applied to.
struct Normalise {
  Floats x, y, before;
  ChannelPlanes planes;
  const ChannelScale* scales = nullptr;
  Activation activation;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const ChannelScale scale = scales[planes.channel_of(i)];
    const auto value =
        static_cast<float>((static_cast<double>(x[i]) - scale.mean) * scale.slope + scale.shift);
    if (before.present()) before.set(i, value);
    y.set(i, with_activation(activation, [=]<Activation a>() { return activation_value<a>(value); }));
  }
};

/// A team for every channel computes the statistics Σdy and Σdy · x̂ from sums of gradients [2, channels,
/// chunks]. Those of this shard are also its addends of the weights' gradients.
struct NormGradientSums {
  const double* partial = nullptr;
  std::int64_t channels = 0, chunks = 1;
  const float* inverses = nullptr;
  double* sums = nullptr;
  Floats gamma_gradient, beta_gradient;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t c) const {
    const double sum = sum_of_chunks(team, partial, c, chunks);
    const double along =
        sum_of_chunks(team, partial, channels + c, chunks) * static_cast<double>(inverses[c]);
    if (team.rank() != 0) return;
    sums[c] = sum;
    sums[channels + c] = along;
    if (gamma_gradient.present()) gamma_gradient.set(c, static_cast<float>(along));
    if (beta_gradient.present()) beta_gradient.set(c, static_cast<float>(sum));
  }
};

/// dx = γ/σ · (dy − average of dy − x̂ · average of dy · x̂).
struct NormGradient {
  Floats x, dx, gamma;
  GradientBeforeActivation dy;
  ChannelPlanes planes;
  const float *means = nullptr, *inverses = nullptr;
  const double* sums = nullptr;
  double count = 1;  ///< of elements in an average
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = planes.channel_of(i);
    const auto inverse = static_cast<double>(inverses[c]);
    const double average = sums[c] / count, along = inverse * sums[planes.channels + c] / count;
    const double centred = static_cast<double>(x[i]) - static_cast<double>(means[c]);
    dx.set(i, static_cast<float>(inverse * static_cast<double>(gamma[c]) *
                                 (static_cast<double>(dy[i]) - average - centred * along)));
  }
};

using BatchNormBodies = BodyList<AddChunks, ChannelSums<NormGradientTerms>, ChannelSums<ValueTerms>,
                                 NormGradient, NormGradientSums, NormStatistics, Normalise>;

}  // namespace pipesim::gpu

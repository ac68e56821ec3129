#pragma once

#include "executor/gpu/bodies/parts/channels.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// y = f(y + bias) of each channel. `before`, where present, keeps y + bias.
struct AddChannelBias {
  Floats y, bias, before;
  ChannelPlanes planes;
  Activation activation;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const float value = y[i] + bias[planes.channel_of(i)];
    if (before.present()) before.set(i, value);
    y.set(i, with_activation(activation, [=]<Activation a>() { return activation_value<a>(value); }));
  }
};

struct GradientTerms {
  static constexpr std::size_t sums = 1;
  Floats dy;
  PIPESIM_DEVICE void add(std::array<double, sums>& to, std::int64_t element,
                          std::int64_t /*channel*/) const {
    to[0] += static_cast<double>(dy[element]);
  }
};

/// A team for every channel, after ChannelSums<GradientTerms>.
struct ChannelBiasGradient {
  const double* partial = nullptr;
  std::int64_t chunks = 1;
  Floats db;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t channel) const {
    const double sum = sum_of_chunks(team, partial, channel, chunks);
    if (team.rank() == 0) db.set(channel, static_cast<float>(sum));
  }
};

using Conv2dBodies = BodyList<AddChannelBias, ChannelBiasGradient, ChannelSums<GradientTerms>>;

}  // namespace pipesim::gpu

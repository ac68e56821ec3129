#include "executor/cpu/kernels/images/channel_bias.h"

#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

constexpr std::size_t channel_bias_use = 2;

bool has_channel_bias(const ShardCall& call, std::span<const Piece> pieces) {
  return integer_of(call.op, "bias") != 0 && pieces[channel_bias_use].present();
}

}  // namespace

void add_channel_bias(const ShardCall& call) {
  if (!has_channel_bias(call, call.values)) return;
  const Piece& y = call.values.back();
  const std::int64_t channels = y.box[1].length(), plane = volume(y.box, 2, y.box.dims());
  for (std::int64_t row = 0; row < y.box[0].length() * channels; ++row) {
    const float b = call.values[channel_bias_use].floats[row % channels];
    for (std::int64_t i = row * plane; i < (row + 1) * plane; ++i) y.floats[i] += b;
  }
}

void sum_for_channel_bias(const ShardCall& call, const float* dy) {
  if (!has_channel_bias(call, call.gradients)) return;
  const Box y = box_of(call, call.op.uses.size() - 1);
  const std::int64_t samples = y[0].length(), channels = y[1].length(), plane = volume(y, 2, y.dims());
  for (std::int64_t o = 0; o < channels; ++o) {
    double sum = 0;
    for_each_term(samples, call.step.sums, [&](std::int64_t n) {
      const float* row = dy + (n * channels + o) * plane;
      for_each_term(plane, call.step.sums, [&](std::int64_t i) { sum += static_cast<double>(row[i]); });
    });
    call.gradients[channel_bias_use].floats[o] = static_cast<float>(sum);
  }
}

}  // namespace pipesim::cpu

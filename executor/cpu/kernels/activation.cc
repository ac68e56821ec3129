#include "executor/cpu/kernels/activation.h"

#include <algorithm>

#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

template <class Function>
void map_into(std::span<const float> x, std::span<float> y, Function f) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(x[i]);
}

template <class Derivative>
void chain(std::span<const float> kept, std::span<const float> dy, std::span<float> dx, Derivative d) {
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * d(kept[i]);
}

}  // namespace

void activate(Activation activation, std::span<const float> x, std::span<float> y) {
  with_activation(activation, [&]<Activation a>() { map_into(x, y, activation_value<a>); });
}

void activation_gradient(Activation activation, std::span<const float> kept, std::span<const float> dy,
                         std::span<float> dx) {
  with_activation(activation, [&]<Activation a>() { chain(kept, dy, dx, activation_slope<a>); });
}

std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements) {
  return needs_input(fused_activation(op)) ? sizeof(float) * static_cast<std::size_t>(elements) : 0;
}

void apply_fused(const ShardCall& call, float* before) {
  const Activation activation = fused_activation(call.op);
  if (activation == Activation::None) return;
  const std::span<float> y = floats_of(call.values.back());
  if (needs_input(activation)) std::copy(y.begin(), y.end(), before);
  activate(activation, y, y);
}

const float* gradient_before_fused(const ShardCall& call, const float* before, std::vector<float>& scratch) {
  const Activation activation = fused_activation(call.op);
  const Piece& dy = call.gradients.back();
  if (activation == Activation::None) return dy.floats;
  scratch.resize(static_cast<std::size_t>(dy.elements()));
  const float* kept = needs_input(activation) ? before : call.values.back().floats;
  activation_gradient(activation, {kept, scratch.size()}, floats_of(dy), scratch);
  return scratch.data();
}

}  // namespace pipesim::cpu

#include "executor/cpu/activation.h"

#include <algorithm>
#include <cmath>

#include "executor/cpu/operands.h"
#include "sim/base/errors.h"

namespace pipesim::cpu {
namespace {

constexpr float gelu_slope = 0.7978845608028654F;  // √(2/π)
constexpr float gelu_cubic = 0.044715F;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

float gelu(float x) { return 0.5F * x * (1 + std::tanh(gelu_slope * (x + gelu_cubic * x * x * x))); }

float gelu_derivative(float x) {
  const float t = std::tanh(gelu_slope * (x + gelu_cubic * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * gelu_slope * (1 + 3 * gelu_cubic * x * x);
}

float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

template <class Function>
void map_into(std::span<const float> x, std::span<float> y, Function f) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(x[i]);
}

template <class Derivative>
void chain(std::span<const float> kept, std::span<const float> dy, std::span<float> dx, Derivative d) {
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * d(kept[i]);
}

Activation fused_activation(const Operator& op) { return activation_named(word_of(op, "activation")); }

}  // namespace

Activation activation_named(std::string_view name) {
  using enum Activation;
  if (name == "none") return None;
  if (name == "relu") return Relu;
  if (name == "gelu") return Gelu;
  if (name == "silu") return Silu;
  if (name == "tanh") return Tanh;
  if (name == "sigmoid") return Sigmoid;
  throw InternalError("no activation " + std::string(name));
}

bool needs_input(Activation activation) {
  return activation == Activation::Gelu || activation == Activation::Silu;
}

void activate(Activation activation, std::span<const float> x, std::span<float> y) {
  switch (activation) {
    case Activation::None:
      return map_into(x, y, [](float v) { return v; });
    case Activation::Relu:
      return map_into(x, y, [](float v) { return std::max(v, 0.0F); });
    case Activation::Gelu:
      return map_into(x, y, gelu);
    case Activation::Silu:
      return map_into(x, y, [](float v) { return v * sigmoid(v); });
    case Activation::Tanh:
      return map_into(x, y, [](float v) { return std::tanh(v); });
    case Activation::Sigmoid:
      return map_into(x, y, sigmoid);
  }
}

void activation_gradient(Activation activation, std::span<const float> kept, std::span<const float> dy,
                         std::span<float> dx) {
  switch (activation) {
    case Activation::None:
      return chain(kept, dy, dx, [](float) { return 1.0F; });
    case Activation::Relu:
      return chain(kept, dy, dx, [](float y) { return y > 0 ? 1.0F : 0.0F; });
    case Activation::Gelu:
      return chain(kept, dy, dx, gelu_derivative);
    case Activation::Silu:
      return chain(kept, dy, dx, silu_derivative);
    case Activation::Tanh:
      return chain(kept, dy, dx, [](float y) { return 1 - y * y; });
    case Activation::Sigmoid:
      return chain(kept, dy, dx, [](float y) { return y * (1 - y); });
  }
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

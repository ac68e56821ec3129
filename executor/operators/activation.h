#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "executor/operators/device_code.h"
#include "models/operator.h"

namespace pipesim {

enum class Activation : std::uint8_t { None, Relu, Gelu, Silu, Tanh, Sigmoid, Relu2 };

/// "none", "relu", "gelu" (the tanh form of Hendrycks and Gimpel, 2016), "silu", "tanh", "sigmoid",
/// "relu2" (the square of relu; So et al., 2021).
Activation activation_named(std::string_view name);
/// The activation that the kernel applies to the operator's result (its last use): attribute "activation".
Activation fused_activation(const Operator& op);
/// The activation of a gated product's first operand.
Activation gate_activation(const Operator& op);

/// Whether the derivative is computed from the input; otherwise it is from the output. That of a square could
/// be had from its root, but float16 has no squares below 2⁻²⁴.
PIPESIM_DEVICE constexpr bool needs_input(Activation a) {
  return a == Activation::Gelu || a == Activation::Silu || a == Activation::Relu2;
}

PIPESIM_DEVICE inline float logistic(float x) { return 1 / (1 + std::exp(-x)); }
PIPESIM_DEVICE inline float gelu_tanh(float x) {
  constexpr float slope = 0.7978845608028654F, cubic = 0.044715F;  // √(2/π)
  return std::tanh(slope * (x + cubic * x * x * x));
}
PIPESIM_DEVICE inline float gelu_slope(float x) {
  constexpr float slope = 0.7978845608028654F, cubic = 0.044715F;
  const float t = gelu_tanh(x);
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * slope * (1 + 3 * cubic * x * x);
}

template <Activation a>
PIPESIM_DEVICE float activation_value(float x) {
  if constexpr (a == Activation::Relu) return x > 0 ? x : 0;
  if constexpr (a == Activation::Gelu) return 0.5F * x * (1 + gelu_tanh(x));
  if constexpr (a == Activation::Silu) return x * logistic(x);
  if constexpr (a == Activation::Tanh) return std::tanh(x);
  if constexpr (a == Activation::Sigmoid) return logistic(x);
  if constexpr (a == Activation::Relu2) return x > 0 ? x * x : 0;
  return x;
}

/// `kept`: the input where needs_input(), else the value.
template <Activation a>
PIPESIM_DEVICE float activation_slope(float kept) {
  if constexpr (a == Activation::Relu) return kept > 0 ? 1 : 0;
  if constexpr (a == Activation::Gelu) return gelu_slope(kept);
  if constexpr (a == Activation::Silu) return logistic(kept) * (1 + kept * (1 - logistic(kept)));
  if constexpr (a == Activation::Tanh) return 1 - kept * kept;
  if constexpr (a == Activation::Sigmoid) return kept * (1 - kept);
  if constexpr (a == Activation::Relu2) return kept > 0 ? 2 * kept : 0;
  return 1;
}

/// The same from the input, whichever of both it is computed from.
template <Activation a>
PIPESIM_DEVICE float activation_slope_at(float x) {
  if constexpr (needs_input(a)) return activation_slope<a>(x);
  return activation_slope<a>(activation_value<a>(x));
}

/// Calls visit.operator()<a>().
template <class Visit>
PIPESIM_DEVICE auto with_activation(Activation a, Visit visit) {
  switch (a) {
    case Activation::Relu:
      return visit.template operator()<Activation::Relu>();
    case Activation::Gelu:
      return visit.template operator()<Activation::Gelu>();
    case Activation::Silu:
      return visit.template operator()<Activation::Silu>();
    case Activation::Tanh:
      return visit.template operator()<Activation::Tanh>();
    case Activation::Sigmoid:
      return visit.template operator()<Activation::Sigmoid>();
    case Activation::Relu2:
      return visit.template operator()<Activation::Relu2>();
    default:
      return visit.template operator()<Activation::None>();
  }
}

}  // namespace pipesim

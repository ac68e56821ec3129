#pragma once

#include <cmath>
#include <cstdint>

#include "executor/operators/device_code.h"

namespace pipesim {

struct OptimizerSettings {
  float learning_rate = 0.01F;
  float momentum = 0.9F;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;  ///< Adam
  float lion_beta1 = 0.9F, lion_beta2 = 0.99F;
  bool operator==(const OptimizerSettings&) const = default;
};

// A step of one weight, in place, with its moments where the optimizer has them.

PIPESIM_DEVICE inline void step_sgd(const OptimizerSettings& s, float gradient, float& weight) {
  weight -= s.learning_rate * gradient;
}

/// v ← μv + g, w ← w − λv.
PIPESIM_DEVICE inline void step_momentum(const OptimizerSettings& s, float gradient, float& weight,
                                         float& velocity) {
  velocity = s.momentum * velocity + gradient;
  weight -= s.learning_rate * velocity;
}

/// The correction for moments that began with 0: 1 / (1 − βᵗ).
struct AdamCorrections {
  float first = 1, second = 1;
};

/// `step` counts from 1.
PIPESIM_DEVICE inline AdamCorrections adam_corrections(const OptimizerSettings& s, std::int64_t step) {
  const auto steps = static_cast<double>(step);
  return {static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta1), steps))),
          static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta2), steps)))};
}

/// Makes a step of Adam (Kingma and Ba, 2015).
PIPESIM_DEVICE inline void step_adam(const OptimizerSettings& s, AdamCorrections corrections, float gradient,
                                     float& weight, float& first, float& second) {
  first = s.beta1 * first + (1 - s.beta1) * gradient;
  second = s.beta2 * second + (1 - s.beta2) * gradient * gradient;
  weight -=
      s.learning_rate * first * corrections.first / (std::sqrt(second * corrections.second) + s.epsilon);
}

/// Makes a step of Lion (Chen et al., arXiv:2302.06675): by the learning rate along the sign of
/// β₁m + (1 − β₁)g, then m ← β₂m + (1 − β₂)g.
PIPESIM_DEVICE inline void step_lion(const OptimizerSettings& s, float gradient, float& weight,
                                     float& moment) {
  const float along = s.lion_beta1 * moment + (1 - s.lion_beta1) * gradient;
  weight -= s.learning_rate * static_cast<float>((along > 0) - (along < 0));
  moment = s.lion_beta2 * moment + (1 - s.lion_beta2) * gradient;
}

}  // namespace pipesim

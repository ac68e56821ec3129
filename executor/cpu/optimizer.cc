#include "executor/cpu/optimizer.h"

#include <cmath>

namespace pipesim::cpu {
namespace {

void update_adam(const OptimizerSettings& settings, std::span<float> weights, std::span<const float> gradient,
                 std::span<float> first, std::span<float> second, std::int64_t step) {
  const float b1 = settings.beta1, b2 = settings.beta2;
  const auto steps = static_cast<double>(step);
  const auto correction1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(b1), steps)));
  const auto correction2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(b2), steps)));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    first[i] = b1 * first[i] + (1 - b1) * gradient[i];
    second[i] = b2 * second[i] + (1 - b2) * gradient[i] * gradient[i];
    weights[i] -= settings.learning_rate * first[i] * correction1 /
                  (std::sqrt(second[i] * correction2) + settings.epsilon);
  }
}

}  // namespace

void update(Optimizer optimizer, const OptimizerSettings& settings, std::span<float> weights,
            std::span<const float> gradient, std::span<float> first, std::span<float> second,
            std::int64_t step) {
  switch (optimizer) {
    case Optimizer::Sgd:
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= settings.learning_rate * gradient[i];
      return;
    case Optimizer::Momentum:
      for (std::size_t i = 0; i < weights.size(); ++i) {
        first[i] = settings.momentum * first[i] + gradient[i];
        weights[i] -= settings.learning_rate * first[i];
      }
      return;
    case Optimizer::Adam:
      return update_adam(settings, weights, gradient, first, second, step);
  }
}

}  // namespace pipesim::cpu

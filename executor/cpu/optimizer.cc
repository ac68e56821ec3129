#include "executor/cpu/optimizer.h"

#include "sim/base/errors.h"

namespace pipesim::cpu {

void update(const Optimizer& optimizer, const OptimizerSettings& settings, std::span<float> weights,
            std::span<const float> gradient, std::span<float> first, std::span<float> second,
            std::int64_t step) {
  switch (optimizer.kind) {
    case Optimizer::Sgd:
      for (std::size_t i = 0; i < weights.size(); ++i) step_sgd(settings, gradient[i], weights[i]);
      return;
    case Optimizer::Momentum:
      for (std::size_t i = 0; i < weights.size(); ++i)
        step_momentum(settings, gradient[i], weights[i], first[i]);
      return;
    case Optimizer::Adam: {
      const AdamCorrections corrections = adam_corrections(settings, step);
      for (std::size_t i = 0; i < weights.size(); ++i)
        step_adam(settings, corrections, gradient[i], weights[i], first[i], second[i]);
      return;
    }
    case Optimizer::Lion:
      for (std::size_t i = 0; i < weights.size(); ++i) step_lion(settings, gradient[i], weights[i], first[i]);
      return;
    default:
      throw InternalError("a step of " + optimizer.str());
  }
}

}  // namespace pipesim::cpu

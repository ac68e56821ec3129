#include "executor/cpu/optimizer.h"

namespace pipesim::cpu {

void update(Optimizer optimizer, const OptimizerSettings& settings, std::span<float> weights,
            std::span<const float> gradient, std::span<float> first, std::span<float> second,
            std::int64_t step) {
  switch (optimizer) {
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
  }
}

}  // namespace pipesim::cpu

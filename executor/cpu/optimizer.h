#pragma once

#include <cstdint>
#include <span>

#include "costmodel/cost_model.h"

namespace pipesim::cpu {

struct OptimizerSettings {
  float learning_rate = 0.01F;
  float momentum = 0.9F;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;  ///< Adam
  bool operator==(const OptimizerSettings&) const = default;
};

/// One optimizer step over a shard's weights, in place. `first` and `second` are the moments, as long as the
/// weights where the optimizer has them: momentum has the first (v ← μv + g, w ← w − λv), Adam both, with
/// corrected bias (Kingma and Ba, 2015). `step` counts from 1.
void update(Optimizer optimizer, const OptimizerSettings& settings, std::span<float> weights,
            std::span<const float> gradient, std::span<float> first, std::span<float> second,
            std::int64_t step);

}  // namespace pipesim::cpu

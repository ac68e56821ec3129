#pragma once

#include <cstdint>
#include <span>

#include "costmodel/cost_model.h"
#include "executor/operators/optimizer.h"

namespace pipesim::cpu {

/// One optimizer step over a shard's weights, in place. `first` and `second` are the moments, as long as the
/// weights where the optimizer has them: momentum and Lion have the first, Adam both. `step` counts from 1.
/// The optimizer must be one that require_steps() lets through.
void update(const Optimizer& optimizer, const OptimizerSettings& settings, std::span<float> weights,
            std::span<const float> gradient, std::span<float> first, std::span<float> second,
            std::int64_t step);

}  // namespace pipesim::cpu

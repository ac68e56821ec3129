#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/operators/activation.h"

namespace pipesim::cpu {

/// y = f(x), element by element; x and y may be the same.
void activate(Activation activation, std::span<const float> x, std::span<float> y);
/// dx = dy · f′; `kept` is x or y, see needs_input(). dx and dy may be the same.
void activation_gradient(Activation activation, std::span<const float> kept, std::span<const float> dy,
                         std::span<float> dx);

// Helpers of fused_activation().

/// Bytes of the values before the function, if backward needs them; else 0.
std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements);
/// Applies the function to the result in place. First stores in `before` the values that backward needs.
void apply_fused(const ShardCall& call, float* before);
/// Gradient of the value before the function: the result's own gradient, or `scratch` filled with the
/// gradient.
const float* gradient_before_fused(const ShardCall& call, const float* before, std::vector<float>& scratch);

}  // namespace pipesim::cpu

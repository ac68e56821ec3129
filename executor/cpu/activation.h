#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/cpu/kernel.h"

namespace pipesim::cpu {

enum class Activation : std::uint8_t { None, Relu, Gelu, Silu, Tanh, Sigmoid };

/// "none", "relu", "gelu" (the tanh form of Hendrycks and Gimpel, 2016), "silu", "tanh", "sigmoid".
Activation activation_named(std::string_view name);
/// Its derivative is a function of the input; those of the others are functions of the output.
bool needs_input(Activation activation);

/// y = f(x), element by element; x and y may be the same.
void activate(Activation activation, std::span<const float> x, std::span<float> y);
/// dx = dy · f′; `kept` is x or y, see needs_input(). dx and dy may be the same.
void activation_gradient(Activation activation, std::span<const float> kept, std::span<const float> dy,
                         std::span<float> dx);

// The attribute "activation" of an operator whose result, the last use, passes through the function in the
// same kernel.

/// Bytes of the values before the function, where backward needs them.
std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements);
/// Applies the function to the result in place, after keeping in `before` what backward needs.
void apply_fused(const ShardCall& call, float* before);
/// Gradient of the value before the function: the result's own gradient, or `scratch` filled with it.
const float* gradient_before_fused(const ShardCall& call, const float* before, std::vector<float>& scratch);

}  // namespace pipesim::cpu

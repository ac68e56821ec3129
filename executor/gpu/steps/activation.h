#pragma once

#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

// Of fused_activation(). What backward needs of the values before it is kept as the result is stored, from
// byte 0 of the saved bytes on.

/// Bytes of the values before the function, where backward needs them; enough for any type of the result.
std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements);
/// Where forward and backward find them; not present where backward needs none.
Floats kept_before_fused(const ShardCall& call);
/// Applies the function to the result in place, after keeping what backward needs.
void apply_fused(const ShardCall& call);
/// Gradient of the value before the function: the result's own gradient, or scratch memory filled with it.
Floats gradient_before_fused(const ShardCall& call);

}  // namespace pipesim::gpu

#pragma once

#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

// Helpers of fused_activation(). Values before the function that backward needs are stored in the result's
// type, from byte 0 of the saved bytes on.

/// Bytes of the values before the function, if backward needs them; enough for any type of the result.
std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements);
/// Where these values are; not present when backward needs none.
Floats kept_before_fused(const ShardCall& call);
/// Applies the function to the result in place, after keeping what backward needs.
void apply_fused(const ShardCall& call);
/// Gradient of the value before the function: the result's own gradient, or scratch memory filled with it.
Floats gradient_before_fused(const ShardCall& call);

}  // namespace pipesim::gpu

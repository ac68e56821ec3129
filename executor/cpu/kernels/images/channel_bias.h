#pragma once

#include "executor/cpu/kernels/kernel.h"

namespace pipesim::cpu {

// The bias of operators whose values are x, a kernel, bias[o] if any, and y[n, o, spatial…]. Both functions
// do nothing where the operator has no bias, or another shard has it.

/// y += bias
void add_channel_bias(const ShardCall& call);
/// The bias's gradient from that of the values before the activation.
void sum_for_channel_bias(const ShardCall& call, const float* dy);

}  // namespace pipesim::cpu

#pragma once

#include <memory>

#include "executor/gpu/steps/attention_layout.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

/// The kernel of attention in all its kinds, with the given limits.
std::unique_ptr<const Kernel> attention_kernel(const AttentionLimits& limits);

}  // namespace pipesim::gpu

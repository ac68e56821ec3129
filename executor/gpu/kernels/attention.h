#pragma once

#include <memory>

#include "executor/gpu/attention_layout.h"
#include "executor/gpu/kernel.h"

namespace pipesim::gpu {

/// The kernel of attention in all its kinds, with limits of one's own.
std::unique_ptr<const Kernel> attention_kernel(const AttentionLimits& limits);

}  // namespace pipesim::gpu

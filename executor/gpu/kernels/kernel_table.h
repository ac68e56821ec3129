#pragma once

#include <string_view>
#include <vector>

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

/// The kernel of a kind of operator; nullptr when there is none.
const Kernel* find_kernel(std::string_view kind);
/// Kinds that have a kernel, sorted.
std::vector<std::string_view> kernel_kinds();

}  // namespace pipesim::gpu

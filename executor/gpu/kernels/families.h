#pragma once

#include <array>
#include <vector>

#include "executor/gpu/kernel.h"

namespace pipesim::gpu {

// One function per file of this folder. A new file is listed here, nowhere else.
std::vector<KernelEntry> batch_norm_kernels();
std::vector<KernelEntry> conv2d_kernels();
std::vector<KernelEntry> elementwise_kernels();
std::vector<KernelEntry> linear_kernels();
std::vector<KernelEntry> pool2d_kernels();
std::vector<KernelEntry> shape_kernels();

inline constexpr std::array kernel_families = {batch_norm_kernels, conv2d_kernels, elementwise_kernels,
                                               linear_kernels,     pool2d_kernels, shape_kernels};

}  // namespace pipesim::gpu

#pragma once

#include <array>
#include <vector>

#include "executor/gpu/kernel.h"

namespace pipesim::gpu {

// One function per file of this folder. A new file is listed here, nowhere else.
std::vector<KernelEntry> bahdanau_kernels();
std::vector<KernelEntry> binary_kernels();
std::vector<KernelEntry> elementwise_kernels();
std::vector<KernelEntry> expert_kernels();
std::vector<KernelEntry> linear_kernels();
std::vector<KernelEntry> lstm_cell_kernels();
std::vector<KernelEntry> shape_kernels();

inline constexpr std::array kernel_families = {bahdanau_kernels, binary_kernels, elementwise_kernels,
                                               expert_kernels,   linear_kernels, lstm_cell_kernels,
                                               shape_kernels};

}  // namespace pipesim::gpu

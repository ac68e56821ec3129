#pragma once

#include <array>
#include <vector>

#include "executor/cpu/kernel.h"

namespace pipesim::cpu {

// One function per file of this folder. A new file is listed here, nowhere else.
std::vector<KernelEntry> attention_kernels();
std::vector<KernelEntry> bahdanau_kernels();
std::vector<KernelEntry> batch_norm_kernels();
std::vector<KernelEntry> binary_kernels();
std::vector<KernelEntry> conv2d_kernels();
std::vector<KernelEntry> cross_entropy_kernels();
std::vector<KernelEntry> dropout_kernels();
std::vector<KernelEntry> elementwise_kernels();
std::vector<KernelEntry> embedding_kernels();
std::vector<KernelEntry> expert_kernels();
std::vector<KernelEntry> linear_kernels();
std::vector<KernelEntry> lstm_cell_kernels();
std::vector<KernelEntry> pool2d_kernels();
std::vector<KernelEntry> reduce_kernels();
std::vector<KernelEntry> rotary_kernels();
std::vector<KernelEntry> row_norm_kernels();
std::vector<KernelEntry> shape_kernels();
std::vector<KernelEntry> softmax_kernels();

inline constexpr std::array kernel_families = {
    attention_kernels,     bahdanau_kernels,  batch_norm_kernels,  binary_kernels,    conv2d_kernels,
    cross_entropy_kernels, dropout_kernels,   elementwise_kernels, embedding_kernels, expert_kernels,
    linear_kernels,        lstm_cell_kernels, pool2d_kernels,      reduce_kernels,    rotary_kernels,
    row_norm_kernels,      shape_kernels,     softmax_kernels};

}  // namespace pipesim::cpu

#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "executor/cpu/kernel.h"

namespace pipesim::cpu {

struct KernelEntry {
  std::string_view kind;
  const Kernel* kernel;
};

// One function per file of this folder. A new file is listed here, nowhere else.
std::vector<KernelEntry> elementwise_kernels();

inline constexpr std::array kernel_families = {elementwise_kernels};

}  // namespace pipesim::cpu

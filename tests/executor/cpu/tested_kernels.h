#pragma once

#include <string_view>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "sim/base/data_type.h"

namespace pipesim::cpu {

/// A kernel to be tested, called as those of CPUs are, whoever computes behind it.
struct TestedKernel {
  const Kernel* kernel = nullptr;
  DataType type = DataType::Float32;  ///< in which it keeps its operands
};

/// The kernels of a kind that this test program tests, the first in float32. Empty where there are none.
std::vector<TestedKernel> tested_kernels(std::string_view kind);
/// Whether this program tests the backend that computes everything: losses in chunks, too.
bool tests_all_kernels();

}  // namespace pipesim::cpu

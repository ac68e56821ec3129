#include "tests/executor/cpu/tested_kernels.h"

namespace pipesim::cpu {

bool tests_all_kernels() { return true; }

std::vector<TestedKernel> tested_kernels(std::string_view kind) {
  const Kernel* kernel = find_kernel(kind);
  return kernel == nullptr ? std::vector<TestedKernel>() : std::vector<TestedKernel>{{kernel}};
}

}  // namespace pipesim::cpu

#include "executor/cpu/kernel.h"

#include "executor/cpu/kernels/families.h"

namespace pipesim::cpu {
namespace {

const KernelTable<Kernel>& kernels() {
  static const KernelTable<Kernel> table(kernel_families);
  return table;
}

}  // namespace

const Kernel* find_kernel(std::string_view kind) { return kernels().find(kind); }

std::vector<std::string_view> kernel_kinds() { return kernels().kinds(); }

}  // namespace pipesim::cpu

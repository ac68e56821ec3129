#include "executor/cpu/kernels/kernel.h"

#include <array>

#include "executor/operators/kernel_families.h"

namespace pipesim::cpu {

#define PIPESIM_DECLARE_FAMILY(name) std::vector<KernelEntry> name##_kernels();
PIPESIM_KERNEL_FAMILIES(PIPESIM_DECLARE_FAMILY)
PIPESIM_CPU_KERNEL_FAMILIES(PIPESIM_DECLARE_FAMILY)
#undef PIPESIM_DECLARE_FAMILY

namespace {

const KernelTable<Kernel>& kernels() {
#define PIPESIM_NAME_FAMILY(name) name##_kernels,
  static constexpr std::array kFamilies = {PIPESIM_KERNEL_FAMILIES(PIPESIM_NAME_FAMILY)
                                               PIPESIM_CPU_KERNEL_FAMILIES(PIPESIM_NAME_FAMILY)};
#undef PIPESIM_NAME_FAMILY
  static const KernelTable<Kernel> table(kFamilies);
  return table;
}

}  // namespace

const Kernel* find_kernel(std::string_view kind) { return kernels().find(kind); }

std::vector<std::string_view> kernel_kinds() { return kernels().kinds(); }

}  // namespace pipesim::cpu

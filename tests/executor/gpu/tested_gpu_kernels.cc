// The kernels of devices, tested by what tests those of CPUs.

#include "tests/executor/cpu/tested_kernels.h"

#include <map>
#include <memory>
#include <string>

#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/kernel_on_machine.h"

namespace pipesim::cpu {

std::vector<TestedKernel> tested_kernels(std::string_view kind) {
  constexpr std::array types{DataType::Float32, DataType::Float32, DataType::BFloat16, DataType::Float16};
  static gpu::HostMachine machine, teams({.team = 3});
  static std::map<std::string, std::vector<std::unique_ptr<gpu::KernelOnMachine>>, std::less<>> made;
  const gpu::Kernel* kernel = gpu::find_kernel(kind);
  if (kernel == nullptr) return {};
  auto& kernels = made[std::string(kind)];
  std::vector<TestedKernel> tested;
  for (const DataType type : types) {
    if (kernels.size() < types.size())
      kernels.push_back(
          std::make_unique<gpu::KernelOnMachine>(*kernel, kernels.size() == 1 ? teams : machine, type));
    tested.push_back({kernels[tested.size()].get(), type});
  }
  return tested;
}

}  // namespace pipesim::cpu

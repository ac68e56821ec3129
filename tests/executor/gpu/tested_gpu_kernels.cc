// The kernels of devices, tested by what tests those of CPUs: on the host, or with PIPESIM_TEST_MACHINE=cuda
// on a GPU.

#include "executor/gpu/kernels/kernel_table.h"
#include "tests/executor/cpu/tested_kernels.h"

#include <map>
#include <memory>
#include <string>

#include "executor/gpu/machine/cuda_library.h"
#include "tests/executor/gpu/cuda_for_tests.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/kernel_on_machine.h"

namespace pipesim::cpu {

namespace {

struct MachinesOfKernels {
  gpu::Machine& machine;  // its own teams …
  gpu::Machine& teams;    // … and other ones, where there are
};

MachinesOfKernels machines_of_kernels() {
  if (gpu::gpu_is_tested()) {
    static const std::unique_ptr<gpu::Machine> cuda = load_cuda_library().machine({});
    return {*cuda, *cuda};
  }
  static gpu::HostMachine machine, teams({.team = 3});
  return {machine, teams};
}

}  // namespace

bool tests_all_kernels() { return false; }

std::vector<TestedKernel> tested_kernels(std::string_view kind) {
  constexpr std::array types{DataType::Float32, DataType::Float32, DataType::BFloat16, DataType::Float16};
  const MachinesOfKernels machines = machines_of_kernels();
  static std::map<std::string, std::vector<std::unique_ptr<gpu::KernelOnMachine>>, std::less<>> made;
  const gpu::Kernel* kernel = gpu::find_kernel(kind);
  if (kernel == nullptr) return {};
  auto& kernels = made[std::string(kind)];
  std::vector<TestedKernel> tested;
  for (const DataType type : types) {
    if (kernels.size() < types.size())
      kernels.push_back(std::make_unique<gpu::KernelOnMachine>(
          *kernel, kernels.size() == 1 ? machines.teams : machines.machine, type));
    tested.push_back({kernels[tested.size()].get(), type});
  }
  return tested;
}

}  // namespace pipesim::cpu

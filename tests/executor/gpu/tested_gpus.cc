#include "tests/executor/tested_devices.h"

#include <memory>

#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/gpu/machine/machine_collectives.h"
#include "tests/executor/gpu/cuda_for_tests.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim {
namespace {

// Parts of a GPU with PIPESIM_TEST_MACHINE=cuda, else a simulated machine in host memory.
class TestedStreams : public TestedDevices {
 public:
  TestedStreams(const OperatorGraph& graph, gpu::Machine& machine, const Optimizer& optimizer)
      : collectives_(gpu::make_machine_collectives(machine)),
        backend_(graph, machine, *collectives_, optimizer, {}) {}
  [[nodiscard]] Backend& backend() override { return backend_; }
  [[nodiscard]] bool arenas() const override { return true; }
  [[nodiscard]] bool has_all_kernels() const override { return false; }
  [[nodiscard]] double narrow_error() const override { return 2e-2; }

 private:
  std::unique_ptr<gpu::Collectives> collectives_;
  gpu::GpuBackend backend_;
};

gpu::Machine& machine_of_plans(std::size_t num_devices) {
  if (gpu::gpu_is_tested()) {
    static const std::unique_ptr<gpu::Machine> cuda =
        load_cuda_library().machine({.devices = static_cast<int>(num_devices), .virtual_devices = true});
    return *cuda;
  }
  static gpu::HostMachine host;
  return host;
}

}  // namespace

std::unique_ptr<TestedDevices> make_tested_devices(const OperatorGraph& graph, std::size_t num_devices,
                                                   const Optimizer& optimizer) {
  return std::make_unique<TestedStreams>(graph, machine_of_plans(num_devices), optimizer);
}

}  // namespace pipesim

#include "tests/executor/tested_devices.h"

#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine_collectives.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim {
namespace {

class TestedStreams : public TestedDevices {
 public:
  explicit TestedStreams(const OperatorGraph& graph)
      : collectives_(gpu::make_machine_collectives(machine_)),
        backend_(graph, machine_, *collectives_, Optimizer::Momentum, {}) {}
  [[nodiscard]] Backend& backend() override { return backend_; }
  [[nodiscard]] bool arenas() const override { return true; }
  [[nodiscard]] double narrow_error() const override { return 2e-2; }

 private:
  gpu::HostMachine machine_;
  std::unique_ptr<gpu::Collectives> collectives_;
  gpu::GpuBackend backend_;
};

}  // namespace

std::unique_ptr<TestedDevices> make_tested_devices(const OperatorGraph& graph, std::size_t /*num_devices*/) {
  return std::make_unique<TestedStreams>(graph);
}

}  // namespace pipesim

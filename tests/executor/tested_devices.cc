#include "tests/executor/tested_devices.h"

#include "executor/cpu/cpu_backend.h"

namespace pipesim {
namespace {

class TestedCpus : public TestedDevices {
 public:
  TestedCpus(const OperatorGraph& graph, std::size_t num_devices, const Optimizer& optimizer)
      : backend_(graph, num_devices, optimizer, settings()) {}
  [[nodiscard]] Backend& backend() override { return backend_; }
  [[nodiscard]] bool arenas() const override { return false; }
  [[nodiscard]] bool has_all_kernels() const override { return true; }
  [[nodiscard]] double narrow_error() const override { return 1e-2; }

 private:
  static CpuBackend::Settings settings() {
    CpuBackend::Settings s;
    s.pin = false;
    return s;
  }
  CpuBackend backend_;
};

}  // namespace

std::unique_ptr<TestedDevices> make_tested_devices(const OperatorGraph& graph, std::size_t num_devices,
                                                   const Optimizer& optimizer) {
  return std::make_unique<TestedCpus>(graph, num_devices, optimizer);
}

}  // namespace pipesim

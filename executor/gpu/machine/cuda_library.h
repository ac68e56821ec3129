#pragma once

#include <memory>

#include "executor/gpu/activity/activity_collector.h"
#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/inventory.h"
#include "executor/gpu/machine/machine_setting.h"

namespace pipesim {

namespace gpu {
class Machine;
}

/// The functions of libpipesim_cuda.so. Through them pipesim itself starts without CUDA.
class CudaLibrary {
 public:
  static constexpr int kVersion = 6;
  virtual ~CudaLibrary() = default;
  /// Asks the driver for the GPUs. The inventory says so when there is no driver, or no GPU.
  [[nodiscard]] virtual GpuInventory inventory() const = 0;
  /// A collector; without a driver it says why it is not available.
  [[nodiscard]] virtual std::unique_ptr<ActivityCollector> activity_collector() const = 0;
  /// Returns devices to run on (executor/gpu/machine/machine.h). InputError when this machine has fewer;
  /// DeviceError that says what is missing: GPUs, their driver, a newer one.
  [[nodiscard]] virtual std::unique_ptr<gpu::Machine> machine(const gpu::MachineSetting& setting) const = 0;
  /// Returns collectives of NCCL between the GPUs of a machine and those of other processes
  /// (executor/gpu/machine/collectives.h).
  [[nodiscard]] virtual std::unique_ptr<gpu::Collectives> collectives(
      gpu::Machine& machine, const gpu::Processes& processes) const = 0;
};

/// Loads libpipesim_cuda.so, which stays loaded. DeviceError that says what is missing and how to get it.
const CudaLibrary& load_cuda_library();

}  // namespace pipesim

/// The only symbol of the library: null when it was built for another version of CudaLibrary.
extern "C" const pipesim::CudaLibrary* pipesim_cuda_library(int version);

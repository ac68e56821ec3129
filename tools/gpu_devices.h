#pragma once

#include <memory>
#include <string>

#include "executor/communication/device_worlds.h"
#include "executor/gpu/collectives.h"
#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine.h"
#include "tools/subject.h"

namespace pipesim {

/// How plans are run on GPUs.
struct GpuSetting {
  bool virtual_devices = false;  ///< all devices are parts of one GPU
  bool tf32 = false;             ///< see gpu::MachineSetting
  bool recorded = false;         ///< see gpu::GpuBackend::Settings
};

/// The GPUs of this process that a plan runs on, and how they communicate.
class GpuDevices {
 public:
  /// DeviceError when CUDA or a driver is missing; InputError when there are too few GPUs, or they can't
  /// compute in the types of the model.
  GpuDevices(const Subject& subject, const GpuSetting& setting, DeviceWorlds& worlds);
  ~GpuDevices();
  GpuDevices(const GpuDevices&) = delete;
  GpuDevices& operator=(const GpuDevices&) = delete;

  [[nodiscard]] std::unique_ptr<Backend> make_backend(const Subject& subject,
                                                      gpu::GpuBackend::Settings settings);
  [[nodiscard]] const std::string& name() const { return name_; }
  /// InputError when the predicted peaks of this process's devices, by device id, do not fit into their
  /// memory.
  void require_memory(const std::vector<DeviceMemory>& peaks, const DeviceWorlds& worlds) const;

 private:
  DeviceWorlds& worlds_;
  bool recorded_;
  std::string name_;  // with the driver
  std::unique_ptr<gpu::Machine> machine_;
  std::unique_ptr<gpu::Collectives> collectives_;
};

}  // namespace pipesim

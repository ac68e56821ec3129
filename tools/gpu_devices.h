#pragma once

#include <memory>
#include <string>

#include "executor/communication/device_worlds.h"
#include "executor/gpu/collectives.h"
#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine.h"
#include "executor/training.h"
#include "tools/subject.h"
#include "topologies/gpu_share.h"

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
  /// What part of its GPU each device is.
  [[nodiscard]] GpuShare share() const { return machine_->share(); }
  /// By what the times of tasks are taken: "CUPTI (130001)", "events, because …".
  [[nodiscard]] const std::string& times_by() const { return times_by_; }
  /// Runs ten pairs of steps, with and without the profiler: what it costs; "" where it is not used.
  [[nodiscard]] std::string collection_cost(Backend& backend, Training& training) const;

 private:
  DeviceWorlds& worlds_;
  bool recorded_;
  std::string name_;  // with the driver
  std::string times_by_;
  std::unique_ptr<ActivityCollector> activity_;  // null: events take times
  std::unique_ptr<gpu::Machine> machine_;
  std::unique_ptr<gpu::Collectives> collectives_;
};

}  // namespace pipesim

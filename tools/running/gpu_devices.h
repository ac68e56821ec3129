#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"
#include "executor/ranks/device_worlds.h"
#include "executor/ranks/shutdown_limit.h"
#include "executor/run/training.h"
#include "tools/analysis/inputs/subject.h"
#include "topologies/gpu_share.h"

namespace pipesim {

/// How plans are run on GPUs.
struct GpuSetting {
  bool virtual_devices = false;  ///< all devices are parts of one GPU
  bool tf32 = false;             ///< see gpu::MachineSetting
  bool recorded = false;         ///< see gpu::GpuBackend::Settings
  bool emulate_links = false;  ///< what moves between virtual devices takes the time of the topology's links
  bool held = false;  ///< devices begin a step after the host: gpu::GpuBackend::Settings::hold, kHoldForHost
};

/// "ranks 0 and 1 are both on GPU 0000:18:00.0 of host a", "" when each GPU has one rank. `places`: by rank,
/// the name of its host, its boot_id() and the bus ids of its GPUs, separated by spaces. One host is what has
/// the same name and boot id, as for NCCL (getHostHash()).
std::string shared_gpu(const std::vector<std::string>& places);

/// The GPUs of this process that a plan runs on, and how they communicate.
class GpuDevices {
 public:
  /// A call of all processes. DeviceError when CUDA or a driver is missing; InputError when there are too few
  /// GPUs, two processes are on one, or they can't compute in the types of the model.
  GpuDevices(const Subject& subject, const GpuSetting& setting, DeviceWorlds& worlds);
  ~GpuDevices();
  GpuDevices(const GpuDevices&) = delete;
  GpuDevices& operator=(const GpuDevices&) = delete;

  [[nodiscard]] std::unique_ptr<Backend> make_backend(const Subject& subject,
                                                      gpu::GpuBackend::Settings settings);
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The part of its GPU that each device is.
  [[nodiscard]] GpuShare share() const { return machine_->share(); }
  /// How the times of tasks are measured: "CUPTI (130001)", "events, because …".
  [[nodiscard]] const std::string& times_by() const { return times_by_; }
  /// Measures the cost of the profiler by ten pairs of steps, with and without it; "" when it is not used.
  [[nodiscard]] std::string collection_cost(Backend& backend, Training& training) const;

 private:
  // Ends last: what follows may hang when a peer dies.
  ShutdownLimit shutdown_limit_{std::chrono::seconds(10)};
  DeviceWorlds& worlds_;
  bool recorded_, held_;
  std::string name_;  // with the driver
  std::string times_by_;
  std::unique_ptr<ActivityCollector> activity_;  // null: events take times
  std::unique_ptr<gpu::Machine> machine_;
  std::unique_ptr<gpu::Collectives> collectives_;
};

}  // namespace pipesim

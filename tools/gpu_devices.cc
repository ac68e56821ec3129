#include "tools/gpu_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/gpu/cuda_library.h"
#include "executor/gpu/machine_collectives.h"
#include "sim/base/errors.h"
#include "tools/plan_run.h"

namespace pipesim {
namespace {

// Devices of this process that the plan uses, from its first one on.
int devices_here(const Strategy& strategy, const DeviceWorlds& worlds) {
  std::int32_t last = worlds.local().front().value;
  for (const DeviceId d : devices_of(strategy)) {
    if (std::ranges::find(worlds.local(), d) != worlds.local().end()) last = std::max(last, d.value);
  }
  return last - worlds.local().front().value + 1;
}

gpu::Processes processes_of(DeviceWorlds& worlds) {
  gpu::Processes processes;
  processes.rank = worlds.rank();
  processes.ranks = worlds.ranks();
  processes.rank_of = [&worlds](DeviceId d) { return worlds.rank_of(d); };
  processes.gather = [&worlds](const std::string& mine) { return worlds.gather_text(mine); };
  return processes;
}

void require_types(const OperatorGraph& graph, const gpu::Machine& machine) {
  for (const Tensor& t : graph.tensors()) {
    const std::string why = machine.why_not(t.type);
    if (!why.empty())
      throw InputError(fmt::format("tensor \"{}\" is of type {}: {}", t.name, name_of(t.type), why));
  }
}

}  // namespace

GpuDevices::GpuDevices(const Subject& subject, const GpuSetting& setting, DeviceWorlds& worlds)
    : worlds_(worlds), recorded_(setting.recorded) {
  if (setting.virtual_devices && worlds.ranks() > 1)
    throw InputError(
        "--virtual-devices: NCCL refuses two ranks on one GPU, so that all virtual devices must be in one "
        "process; "
        "found " +
        std::to_string(worlds.ranks()) + " processes");
  const CudaLibrary& cuda = load_cuda_library();
  gpu::MachineSetting machine;
  machine.first_device = worlds.local().front();
  machine.gpu = setting.virtual_devices ? 0 : worlds.local_rank() * static_cast<int>(worlds.local().size());
  machine.devices = devices_here(subject.plan.strategy, worlds);
  machine.virtual_devices = setting.virtual_devices;
  machine.tf32 = setting.tf32;
  machine_ = cuda.machine(machine);
  require_types(subject.graph, *machine_);
  collectives_ = setting.virtual_devices ? gpu::make_machine_collectives(*machine_)
                                         : cuda.collectives(*machine_, processes_of(worlds));
  worlds.on_death([this](const std::string& reason) { collectives_->abort(reason); });
  name_ = fmt::format("{}, driver for CUDA {}", machine_->name(), cuda.inventory().driver);
}

GpuDevices::~GpuDevices() { worlds_.on_death({}); }

std::unique_ptr<Backend> GpuDevices::make_backend(const Subject& subject,
                                                  gpu::GpuBackend::Settings settings) {
  settings.recorded = recorded_ && !settings.watch_for_nan;
  return std::make_unique<gpu::GpuBackend>(subject.graph, *machine_, *collectives_,
                                           subject.plan.options.optimizer, settings);
}

void GpuDevices::require_memory(const std::vector<DeviceMemory>& peaks, const DeviceWorlds& worlds) const {
  Bytes sum;
  for (const DeviceId d : worlds.local()) {
    const Bytes free = machine_->free_memory(d), peak = peaks[d.index()].peak;
    sum += peak;
    const Bytes needed = machine_->shares_memory() ? sum : peak;
    if (needed > free)
      throw InputError(fmt::format(
          "{} predicted to need {} and the GPU has {} free; take a smaller batch, or a plan that splits "
          "weights "
          "over more devices",
          machine_->shares_memory() ? "the plan's devices are" : fmt::format("device {} is", d.value),
          pretty(needed), pretty(free)));
  }
}

}  // namespace pipesim

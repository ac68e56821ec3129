#include "tools/running/gpu_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>

#include "executor/gpu/activity/collection_overhead.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/gpu/machine/emulated_links.h"
#include "executor/gpu/machine/machine_collectives.h"
#include "executor/gpu/machine/requirements.h"
#include "executor/ranks/peer_sockets.h"
#include "sim/base/errors.h"
#include "tools/running/plan_run.h"

namespace pipesim {
namespace {

// Devices of this process, of GPUs up to the last that the plan uses.
int devices_here(const Strategy& strategy, const GpuSetting& setting, const DeviceWorlds& worlds) {
  if (setting.virtual_devices)
    return static_cast<int>(worlds.local().size());  // their size says what they are
  std::int32_t last = worlds.local().front().value;
  for (const DeviceId d : devices_of(strategy)) {
    if (std::ranges::find(worlds.local(), d) != worlds.local().end()) last = std::max(last, d.value);
  }
  return last - worlds.local().front().value + 1;
}

// Processes of one host take its GPUs in turn, unless their launcher shows each its own.
int first_gpu(const GpuSetting& setting, const GpuInventory& found, const DeviceWorlds& worlds) {
  const bool own = found.gpus.size() == worlds.local().size();
  return setting.virtual_devices || own ? 0 : worlds.devices_before_on_host();
}

gpu::Processes processes_of(DeviceWorlds& worlds) {
  gpu::Processes processes;
  processes.rank = worlds.rank();
  processes.ranks = worlds.ranks();
  processes.rank_of = [&worlds](DeviceId d) { return worlds.rank_of(d); };
  processes.gather = [&worlds](const std::string& mine) { return worlds.gather_text(mine); };
  return processes;
}

// Before NCCL refuses it in words of its own.
void require_own_gpus(DeviceWorlds& worlds, const GpuInventory& found, const gpu::MachineSetting& machine) {
  if (worlds.ranks() == 1) return;
  std::string place = host_name() + " " + boot_id();
  for (int i = 0; i < machine.devices; ++i)
    place += " " + found.gpus.at(static_cast<std::size_t>(machine.gpu + i)).bus_id;
  const std::string shared = shared_gpu(worlds.gather_text(place));
  if (!shared.empty())
    throw InputError(shared +
                     ", which NCCL refuses; show each process GPUs of its own, or all of them the whole "
                     "host's (CUDA_VISIBLE_DEVICES), or run one process with --virtual-devices");
}

// Why times can't be taken by CUPTI in one of the processes: they have to make the same steps.
std::string refusal_anywhere(DeviceWorlds& worlds, const std::string& mine) {
  if (worlds.ranks() == 1) return mine;
  const std::vector<std::string> refusals = worlds.gather_text(mine);
  for (std::size_t r = 0; r < refusals.size(); ++r) {
    if (!refusals[r].empty()) return fmt::format("on rank {} {}", r, refusals[r]);
  }
  return "";
}

}  // namespace

std::string shared_gpu(const std::vector<std::string>& places) {
  std::map<std::array<std::string, 3>, std::size_t> owners;  // by host, boot id and bus id
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    std::istringstream words(places[rank]);
    std::string host, boot;
    words >> host >> boot;
    for (std::string bus_id; words >> bus_id;) {
      const auto [owner, first] = owners.try_emplace({host, boot, bus_id}, rank);
      if (!first)
        return fmt::format("ranks {} and {} are both on GPU {} of host {}", owner->second, rank, bus_id,
                           host);
    }
  }
  return "";
}

GpuDevices::GpuDevices(const Subject& subject, const GpuSetting& setting, DeviceWorlds& worlds)
    : worlds_(worlds), recorded_(setting.recorded), held_(setting.held) {
  if (setting.virtual_devices && worlds.ranks() > 1)
    throw InputError(
        "--virtual-devices: NCCL refuses two ranks on one GPU, so that all virtual devices must be in one "
        "process; "
        "found " +
        std::to_string(worlds.ranks()) + " processes");
  const CudaLibrary& cuda = load_cuda_library();
  gpu::MachineSetting machine;
  machine.first_device = worlds.local().front();
  const GpuInventory found = cuda.inventory();
  machine.gpu = first_gpu(setting, found, worlds);
  machine.devices = devices_here(subject.plan.strategy, setting, worlds);
  machine.virtual_devices = setting.virtual_devices;
  machine.tf32 = setting.tf32;
  machine_ = cuda.machine(machine);
  require_own_gpus(worlds, found, machine);
  gpu::require_types(subject.graph, *machine_);
  collectives_ = setting.virtual_devices ? gpu::make_machine_collectives(*machine_)
                                         : cuda.collectives(*machine_, processes_of(worlds));
  if (setting.emulate_links)
    collectives_ = gpu::make_emulated_links(*machine_, std::move(collectives_), subject.topology);
  activity_ = cuda.activity_collector();
  const std::string why = refusal_anywhere(worlds, activity_->unavailable());
  if (recorded_) {
    times_by_ = "none of single tasks: CUPTI gives captured graphs wrong ids";
  } else if (why.empty()) {
    times_by_ = fmt::format("CUPTI ({})", activity_->api_version());
  } else {
    times_by_ = "events, because " + why;
  }
  if (recorded_ || !why.empty()) activity_.reset();
  name_ = fmt::format("{}, driver for CUDA {}", machine_->name(), found.driver);
  worlds.on_death([this](const std::string& reason) {
    shutdown_limit_.expect_end(reason);
    collectives_->abort(reason);
  });
}

GpuDevices::~GpuDevices() { worlds_.on_death({}); }

std::unique_ptr<Backend> GpuDevices::make_backend(const Subject& subject,
                                                  gpu::GpuBackend::Settings settings) {
  settings.recorded = recorded_ && !settings.watch_for_nan;
  settings.activity = activity_.get();
  if (held_) settings.hold = gpu::kHoldForHost;
  return std::make_unique<gpu::GpuBackend>(subject.graph, *machine_, *collectives_,
                                           subject.plan.options.optimizer, settings);
}

std::string GpuDevices::collection_cost(Backend& backend, Training& training) const {
  constexpr int pairs = 10;
  if (!activity_) return "";
  auto& gpus = dynamic_cast<gpu::GpuBackend&>(backend);
  std::vector<Nanoseconds> without, with;
  for (int i = 0; i < pairs; ++i) {
    gpus.take_times_by(nullptr);
    without.push_back(training.step().makespan);
    gpus.take_times_by(activity_.get());
    with.push_back(training.step().makespan);
  }
  return activity_->unavailable().empty() ? collection_overhead(without, with).str()
                                          : activity_->unavailable();
}

}  // namespace pipesim

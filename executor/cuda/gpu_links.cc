#include "executor/cuda/gpu_links.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace pipesim {
namespace {

// The part of NVML's interface that is needed (NVML API reference); its header is not in the toolkit's
// packages everywhere.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlPci {
  std::array<char, 16> bus_id_legacy;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> bus_id;
};
struct NvmlMemory {
  unsigned long long total, free, used;  // bytes
};
constexpr unsigned kMostLinks = 18;
constexpr int kNvmlSuccess = 0;
enum class Remote { Gpu = 0, Switch = 2, Unknown = 255 };  // as NVML numbers them

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    load("nvmlInit_v2", start_);
    load("nvmlShutdown", stop_);
    load("nvmlDeviceGetHandleByPciBusId_v2", device_);
    load("nvmlDeviceGetNvLinkState", state_);
    load("nvmlDeviceGetNvLinkRemotePciInfo_v2", remote_);
    load("nvmlDeviceGetNvLinkRemoteDeviceType", remote_kind_);
    load("nvmlDeviceGetMaxPcieLinkGeneration", pcie_generation_);
    load("nvmlDeviceGetMaxPcieLinkWidth", pcie_lanes_);
    load("nvmlDeviceGetMemoryInfo", memory_);
    started_ = start_ && stop_ && device_ && state_ && remote_ && remote_kind_ && start_() == kNvmlSuccess;
  }
  ~Nvml() {
    if (started_) stop_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Calls visit(remote, remote bus id) for every link of the GPU that is up.
  template <class Visit>
  void for_each_link(const std::string& bus_id, Visit visit) const {
    NvmlDevice device = nullptr;
    if (!started_ || device_(bus_id.c_str(), &device) != kNvmlSuccess) return;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned up = 0;
      int kind = static_cast<int>(Remote::Unknown);
      NvmlPci pci{};
      if (state_(device, link, &up) != kNvmlSuccess || up == 0) continue;
      if (remote_kind_(device, link, &kind) != kNvmlSuccess) kind = static_cast<int>(Remote::Unknown);
      if (remote_(device, link, &pci) != kNvmlSuccess) pci = {};
      visit(static_cast<Remote>(kind), std::string(pci.bus_id.data()));
    }
  }

  [[nodiscard]] PcieLink pcie(const std::string& bus_id) const {
    NvmlDevice device = nullptr;
    PcieLink link;
    unsigned value = 0;
    if (!started_ || device_(bus_id.c_str(), &device) != kNvmlSuccess) return link;
    if (pcie_generation_ && pcie_generation_(device, &value) == kNvmlSuccess)
      link.generation = static_cast<int>(value);
    if (pcie_lanes_ && pcie_lanes_(device, &value) == kNvmlSuccess) link.lanes = static_cast<int>(value);
    return link;
  }

  [[nodiscard]] std::int64_t free_memory(const std::string& bus_id) const {
    NvmlDevice device = nullptr;
    NvmlMemory memory{};
    if (!started_ || !memory_ || device_(bus_id.c_str(), &device) != kNvmlSuccess ||
        memory_(device, &memory) != kNvmlSuccess)
      return -1;
    return static_cast<std::int64_t>(memory.free);
  }

 private:
  template <class Function>
  void load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  bool started_ = false;
  int (*start_)() = nullptr;
  int (*stop_)() = nullptr;
  int (*device_)(const char*, NvmlDevice*) = nullptr;
  int (*state_)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*remote_)(NvmlDevice, unsigned, NvmlPci*) = nullptr;
  int (*remote_kind_)(NvmlDevice, unsigned, int*) = nullptr;
  int (*pcie_generation_)(NvmlDevice, unsigned*) = nullptr;
  int (*pcie_lanes_)(NvmlDevice, unsigned*) = nullptr;
  int (*memory_)(NvmlDevice, NvmlMemory*) = nullptr;
};

// NVML writes the domain with eight digits, CUDA with four.
bool same_bus_id(std::string_view a, std::string_view b) {
  const std::size_t length = std::min(a.size(), b.size());
  return length > 0 && std::ranges::equal(a.substr(a.size() - length), b.substr(b.size() - length),
                                          [](unsigned char x, unsigned char y) {
                                            return std::tolower(x) == std::tolower(y);
                                          });
}

}  // namespace

GpuLinks links_of(const std::vector<Gpu>& gpus) {
  const Nvml nvml;
  GpuLinks links;
  links.to_switches.resize(gpus.size());
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    links.pcie.push_back(nvml.pcie(gpus[g].bus_id));
    links.free_memory.push_back(nvml.free_memory(gpus[g].bus_id));
    nvml.for_each_link(gpus[g].bus_id, [&](Remote remote, const std::string& bus_id) {
      const auto other =
          std::ranges::find_if(gpus, [&](const Gpu& gpu) { return same_bus_id(gpu.bus_id, bus_id); });
      // Virtual machines do not see the switches behind their GPUs' links; NCCL takes them to be some, too.
      if (remote == Remote::Switch || (remote == Remote::Unknown && other == gpus.end())) {
        ++links.to_switches[g];
        return;
      }
      // Each of the two tells of the link.
      if (const auto number = static_cast<std::size_t>(other - gpus.begin());
          other != gpus.end() && g < number)
        ++links.between[{static_cast<int>(g), static_cast<int>(number)}];
    });
  }
  return links;
}

}  // namespace pipesim

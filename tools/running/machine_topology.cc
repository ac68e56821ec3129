#include "tools/running/machine_topology.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "costmodel/host.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/gpu/machine/machine.h"
#include "executor/gpu/machine/pcie_places.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "topologies/files/pci_devices.h"

namespace pipesim {
namespace {

// GT/s by generation (PCI Express Base Specification).
std::string pcie_speed(int generation) {
  constexpr std::array<const char*, 6> speeds{"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"};
  if (generation < 1 || generation > static_cast<int>(speeds.size())) return "";
  return fmt::format("{} GT/s PCIe", speeds[static_cast<std::size_t>(generation) - 1]);
}

double relative_rate(const PcieLink& link) {
  return static_cast<double>(link.lanes) * static_cast<double>(1 << std::clamp(link.generation, 0, 6));
}

// The slowest link from a GPU to its processor.
PcieLink narrowest_link(const Gpu& gpu) {
  PcieLink least = gpu.pcie;
  for (const PcieSwitch& above : gpu.switches) {
    if (above.link.generation == 0 || above.link.lanes == 0) continue;
    if (relative_rate(least) == 0 || relative_rate(above.link) < relative_rate(least)) least = above.link;
  }
  return least;
}

NcclPci pci_at(const std::string& bus_id, const PcieLink& link) {
  NcclPci pci;
  pci.bus_id = bus_id;
  pci.link_speed = pcie_speed(link.generation);
  pci.link_width = link.lanes;
  return pci;
}

class MachineReader {
 public:
  explicit MachineReader(const MachineDescription& machine) : machine_(machine), found_(machine.gpus) {}

  [[nodiscard]] NcclDump dump() const {
    std::map<int, NcclCpu> cpus;
    for (std::size_t g = 0; g < found_.gpus.size(); ++g) {
      const Gpu& gpu = found_.gpus[g];
      NcclCpu& cpu = cpus.try_emplace(gpu.numa_node, machine_.processor).first->second;
      const bool apart = only_through_host(g);
      std::vector<NcclPci>* at = &cpu.pci;
      if (!apart) {
        for (const PcieSwitch& above : gpu.switches) at = &below(above, *at);
      }
      at->push_back(pci_at(gpu.bus_id, apart ? narrowest_link(gpu) : gpu.pcie));
      at->back().gpu = described(g);
    }
    NcclDump result;
    for (auto& [node, cpu] : cpus) result.cpus.push_back(std::move(cpu));
    return result;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (std::ranges::any_of(found_.gpus, [](const Gpu& gpu) { return gpu.numa_node < 0; }))
      notes.emplace_back("GPUs whose NUMA node is not told are taken to be at one processor");
    if (std::ranges::any_of(found_.pairs, [](const GpuPair& pair) { return !pair.peer_access; }))
      notes.emplace_back(
          "GPUs without access to each other go through the host's memory, at the rate of the narrowest link "
          "between them");
    for (std::size_t g = 0; g < found_.gpus.size(); ++g) {
      if (switch_links(g) < found_.switch_nvlinks[g])
        notes.push_back(
            fmt::format("NVLinks of GPU {} to switches do not count: it has access to no other", g));
    }
    for (const GpuPair& pair : found_.pairs) {
      if (pair.nvlinks > 0 && !pair.peer_access)
        notes.push_back(fmt::format("NVLinks between GPUs {} and {} do not count: no access to each other",
                                    pair.first, pair.second));
    }
    return notes;
  }

 private:
  static std::vector<NcclPci>& below(const PcieSwitch& above, std::vector<NcclPci>& at) {
    const auto known = std::ranges::find(at, above.bus_id, &NcclPci::bus_id);
    if (known != at.end()) return known->below;
    return at.emplace_back(pci_at(above.bus_id, above.link)).below;
  }

  [[nodiscard]] static bool share_a_switch(const Gpu& a, const Gpu& b) {
    return !a.switches.empty() && !b.switches.empty() && a.switches.front() == b.switches.front();
  }

  // GPUs below one of the GPU's switches, but none that it has access to.
  [[nodiscard]] bool only_through_host(std::size_t g) const {
    bool neighbours = false;
    for (const GpuPair& pair : found_.pairs) {
      const auto first = static_cast<std::size_t>(pair.first), second = static_cast<std::size_t>(pair.second);
      if ((first != g && second != g) || !share_a_switch(found_.gpus[first], found_.gpus[second])) continue;
      if (pair.peer_access) return false;
      neighbours = true;
    }
    return neighbours;
  }

  [[nodiscard]] std::int64_t switch_links(std::size_t g) const {
    const auto is_of_it = [&](const GpuPair& pair) {
      return static_cast<std::size_t>(pair.first) == g || static_cast<std::size_t>(pair.second) == g;
    };
    const bool shut = found_.gpus.size() > 1 && std::ranges::none_of(found_.pairs, [&](const GpuPair& pair) {
                        return is_of_it(pair) && pair.peer_access;
                      });
    return shut ? 0 : found_.switch_nvlinks[g];
  }

  [[nodiscard]] NcclGpu described(std::size_t g) const {
    const Gpu& gpu = found_.gpus[g];
    NcclGpu result;
    result.name = gpu.name;
    result.memory = gpu.memory;
    result.number = static_cast<std::int64_t>(g);
    result.compute_capability = gpu.capability;
    result.maker = kNvidiaVendor;  // CUDA found it
    const auto link = [&](NcclNvlink::To to, const std::string& bus_id, std::int64_t count) {
      if (count > 0) result.nvlinks.push_back({to, bus_id, count, 0});
    };
    link(NcclNvlink::To::Switch, "", switch_links(g));
    for (const GpuPair& pair : found_.pairs) {
      const auto first = static_cast<std::size_t>(pair.first), second = static_cast<std::size_t>(pair.second);
      if (!pair.peer_access || (first != g && second != g)) continue;
      link(NcclNvlink::To::Gpu, found_.gpus[first == g ? second : first].bus_id, pair.nvlinks);
    }
    return result;
  }

  const MachineDescription& machine_;
  const GpuInventory& found_;
};

// What follows "name : " in the first line that begins with the name alone.
std::string_view cpuinfo_value(std::string_view cpuinfo, std::string_view name) {
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(cpuinfo.size(), line.size() + 1));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with(name)) continue;
    if (line.substr(name.size(), colon - name.size()).find_first_not_of(" \t") != std::string_view::npos)
      continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? std::string_view() : line.substr(value);
  }
  return {};
}

std::int64_t cpuinfo_number(std::string_view cpuinfo, std::string_view name) {
  const std::string_view text = cpuinfo_value(cpuinfo, name);
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

GpuInventory gpus_of_this_machine() {
  GpuInventory found = load_cuda_library().inventory();
  add_pcie_places(found);
  return found;
}

NcclCpu processor_of(std::string_view cpuinfo, std::string_view architecture) {
  NcclCpu processor;
  processor.architecture = architecture == "aarch64"           ? "arm64"
                           : architecture.starts_with("ppc64") ? "ppc64"
                                                               : architecture;
  processor.vendor = cpuinfo_value(cpuinfo, "vendor_id");
  processor.family = cpuinfo_number(cpuinfo, "cpu family");
  processor.model = cpuinfo_number(cpuinfo, "model");
  return processor;
}

MachineDescription this_machine() {
  utsname system{};
  uname(&system);
  return {this_host().name, processor_of(read_file("/proc/cpuinfo"), system.machine), gpus_of_this_machine()};
}

ImportedTopology topology_of(const MachineDescription& machine, const std::optional<DeviceKind>& kind) {
  if (machine.gpus.gpus.empty())
    throw DeviceError("this machine has no GPUs of NVIDIA: " + machine.gpus.no_gpus);
  NcclImport import;
  import.name = machine.name;
  import.source = "this machine";
  import.kind = kind;
  import.origin = "GPUs and links as CUDA, NVML and Linux tell; rates of links as NCCL counts them";
  const MachineReader reader(machine);
  ImportedTopology imported = topology_of(reader.dump(), import);
  for (std::string& note : reader.notes()) imported.notes.push_back(std::move(note));
  return imported;
}

ImportedTopology topology_of(const MachineDescription& machine, const GpuShare& share,
                             const std::optional<DeviceKind>& kind) {
  MachineDescription first = machine;
  if (!first.gpus.gpus.empty()) first.gpus.gpus.resize(1);
  first.gpus.switch_nvlinks.resize(first.gpus.gpus.size());
  first.gpus.pairs.clear();
  const Topology whole = topology_of(first, kind).topology;
  return {divided_gpu(machine.name, whole.kind(DeviceId(0)), share),
          {"nothing is measured: memory's bandwidth is divided equally among the devices, as when all are "
           "busy; \"pipesim calibrate\" measures"}};
}

GpuShare share_of_this_machine(int parts) {
  gpu::MachineSetting setting;
  setting.devices = parts;
  setting.virtual_devices = true;
  return load_cuda_library().machine(setting)->share();
}

}  // namespace pipesim

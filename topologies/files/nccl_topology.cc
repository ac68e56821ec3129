#include "topologies/files/nccl_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/device_kinds.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

constexpr double kGigabytes = 1e9;
constexpr Seconds kHalfMicrosecond{0.5e-6}, kMicrosecond{1e-6}, kNetworkLatency{1.35e-6};

Cable duplex(double gigabytes_per_second, Seconds latency) {
  return {BytesPerSecond(gigabytes_per_second * kGigabytes), latency, true};
}

// GB/s of one NVLink and direction, by compute capability.
double nvlink_rate(std::int64_t capability) {
  if (capability >= 100) return 40.1;
  if (capability >= 90) return 20.6;
  if (capability == 86) return 12;
  if (capability >= 70) return 20;
  return 18;
}

double nvlinks_rate(const NcclGpu& gpu, std::int64_t count) {
  return count == 0 ? 0 : nvlink_rate(gpu.compute_capability.value()) * static_cast<double>(count);
}

// GB/s between the CPUs of a host. AMD's families are numbered as /proc/cpuinfo does, or with the extended
// part shifted by a digit, as NCCL itself does.
double cpu_rate(const NcclCpu& cpu) {
  if (cpu.architecture == "arm64") return 6;
  if (cpu.architecture == "ppc64") return 32;
  if (cpu.vendor == "AuthenticAMD") {
    const bool zen_3_or_4 = cpu.family == 0x19 || cpu.family == 0xaf;
    const bool later = cpu.family == 0x1a || cpu.family == 0xbf;
    return later ? 32 : zen_3_or_4 ? 24 : 16;
  }
  constexpr std::int64_t emerald_rapids = 0xcf, sapphire_rapids = 0x8f, skylake = 0x55;
  if (cpu.vendor != "GenuineIntel" || cpu.family != 6) return 6;
  if (cpu.model >= emerald_rapids) return 40;
  if (cpu.model >= sapphire_rapids) return 22;
  return cpu.model >= skylake ? 10 : 6;
}

// A GPU of NVIDIA whose kind is built in.
struct KnownGpu {
  std::int64_t device_id;
  std::string_view name, kind;
};

// Supported products, in the appendix of the driver's README; pci-ids.ucw.cz.
constexpr std::array<KnownGpu, 15> kKnownGpus{{{0x102d, "Tesla K80", "K80"},
                                               {0x15f8, "Tesla P100-PCIE-16GB", "P100-PCIe"},
                                               {0x15f9, "Tesla P100-SXM2-16GB", "P100-SXM2"},
                                               {0x1db1, "Tesla V100-SXM2-16GB", "V100-SXM2-16GB"},
                                               {0x1db4, "Tesla V100-PCIE-16GB", "V100-PCIe"},
                                               {0x1db5, "Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
                                               {0x20b0, "NVIDIA A100-SXM4-40GB", "A100-40GB"},
                                               {0x20b2, "NVIDIA A100-SXM4-80GB", "A100-80GB"},
                                               {0x20b5, "NVIDIA A100 80GB PCIe", "A100-80GB"},
                                               {0x20f1, "NVIDIA A100-PCIE-40GB", "A100-40GB"},
                                               {0x2324, "NVIDIA H800", "H800"},
                                               {0x2330, "NVIDIA H100 80GB HBM3", "H100-SXM5"},
                                               {0x2335, "NVIDIA H200", "H200"},
                                               {0x2901, "NVIDIA B200", "B200"},
                                               {0x2941, "NVIDIA GB200", "GB200"}}};

// A GPU and where it sits.
struct Seat {
  const NcclPci* pci = nullptr;
  const NcclCpu* cpu = nullptr;
};

// Anything that leads to a GPU, or to a NIC where NICs count.
bool leads_anywhere(const NcclPci& pci, bool networked) {
  return pci.gpu || (networked && !pci.nets.empty()) ||
         std::ranges::any_of(pci.below, [&](const NcclPci& p) { return leads_anywhere(p, networked); });
}

void collect_gpus(const std::vector<NcclPci>& below, const NcclCpu& cpu, std::vector<Seat>& seats) {
  for (const NcclPci& pci : below) {
    if (pci.gpu) seats.push_back({&pci, &cpu});
    collect_gpus(pci.below, cpu, seats);
  }
}

class NcclBuilder {
 public:
  NcclBuilder(const NcclDump& dump, const NcclImport& import)
      : import_(import),
        line_(dump.line),
        draft_(import.name, import.origin.empty() ? "NCCL topology " + import.source : import.origin) {
    for (const NcclCpu& cpu : dump.cpus) {
      const auto at =
          std::ranges::find(hosts_, cpu.host, [](const auto& cpus) { return cpus.front()->host; });
      (at == hosts_.end() ? hosts_.emplace_back() : *at).push_back(&cpu);
    }
    std::erase_if(hosts_, [](const auto& cpus) {
      std::vector<Seat> seats;
      for (const NcclCpu* cpu : cpus) collect_gpus(cpu->pci, *cpu, seats);
      return seats.empty();
    });
    if (hosts_.empty()) fail(line_, "found no GPU");
    std::vector<Seat> seats;
    for (const auto& cpus : hosts_) {
      for (const NcclCpu* cpu : cpus) collect_gpus(cpu->pci, *cpu, seats);
    }
    if (const auto gpus = static_cast<std::int64_t>(seats.size()); gpus > max_devices / import.copies)
      fail(line_, fmt::format("found {} GPUs, {} times; allowed: up to {} in all", gpus, import.copies,
                              max_devices));
    find_memory(seats);
  }

  ImportedTopology build() && {
    const auto hosts = static_cast<std::int64_t>(hosts_.size());
    networked_ = hosts * import_.copies > 1;
    if (networked_) network_ = draft_.add_switch("network");
    for (std::int64_t copy = 0; copy < import_.copies; ++copy) {
      for (const auto& cpus : hosts_) add_host(cpus);
    }
    if (networked_ && nics_ == 0)
      fail(line_, fmt::format("found no <net>, and {} hosts need a network", hosts * import_.copies));
    if (hosts > 1) note("NVSwitches of different hosts are taken to be apart");
    return {finished(), std::move(notes_)};
  }

 private:
  // What the figures of a file add up to may be more than a topology allows.
  [[nodiscard]] Topology finished() {
    try {
      return Topology(std::move(draft_).finish());
    } catch (const InputError& error) {
      fail(line_, error.what());
    }
  }

  void note(std::string text) {
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(std::move(text));
  }

  void add_host(const std::vector<const NcclCpu*>& cpus) {
    constexpr std::size_t most_sockets = 256;
    if (cpus.size() > most_sockets)
      fail(line_, fmt::format("a host has {} <cpu>, allowed: up to {}", cpus.size(), most_sockets));
    const std::string name = fmt::format("node{}", draft_.num_nodes());
    node_ = draft_.add_node(name);
    prefix_ = networked_ ? name + "." : "";
    gpus_.clear();
    bridges_ = nics_of_host_ = 0;
    add_gpus(cpus);
    std::vector<DraftVertex> sockets;
    for (const NcclCpu* cpu : cpus) {
      sockets.push_back(draft_.add_switch(fmt::format("{}cpu{}", prefix_, sockets.size()), node_));
      socket_of_[cpu] = sockets.back();
      for (std::size_t other = 0; other + 1 < sockets.size(); ++other)
        draft_.connect(sockets[other], sockets.back(), duplex(cpu_rate(*cpu), kHalfMicrosecond));
    }
    for (const NcclCpu* cpu : cpus) {
      for (const NcclPci& pci : cpu->pci) add_below(pci, socket_of_[cpu]);
      for (const NcclNet& net : cpu->nets) add_nic(net, socket_of_[cpu], net_cable(net));
    }
    add_nvlinks();
  }

  // In the order of their numbers, where they have any.
  void add_gpus(const std::vector<const NcclCpu*>& cpus) {
    seats_.clear();
    for (const NcclCpu* cpu : cpus) collect_gpus(cpu->pci, *cpu, seats_);
    const auto number = [](const Seat& seat) { return seat.pci->gpu->number.value_or(-1); };
    std::ranges::stable_sort(seats_, {}, number);
    const bool numbered =
        number(seats_.front()) >= 0 && std::ranges::adjacent_find(seats_, {}, number) == seats_.end();
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const std::int64_t called = numbered ? number(seats_[i]) : static_cast<std::int64_t>(i);
      const DraftVertex gpu = draft_.add_device(fmt::format("{}gpu{}", prefix_, called),
                                                draft_.kind(kind_of(*seats_[i].pci)), node_);
      if (!gpus_.try_emplace(seats_[i].pci->bus_id, gpu).second)
        fail(seats_[i].pci->line, fmt::format("busid {} was found before", seats_[i].pci->bus_id));
    }
  }

  [[nodiscard]] DeviceKind kind_of(const NcclPci& pci) const {
    DeviceKind kind = built_in_kind(pci);
    if (const auto told = memory_.find(kind.name); told != memory_.end()) {
      kind.memory = Bytes(told->second);
      if (!kind.source.empty()) kind.source += "; ";
      kind.source += "memory as the driver tells";
    }
    return kind;
  }

  // Among GPUs of one kind the one with the least memory decides.
  void find_memory(const std::vector<Seat>& seats) {
    for (const Seat& seat : seats) {
      const std::int64_t bytes = seat.pci->gpu->memory;
      if (bytes == 0) continue;
      const auto [at, first] = memory_.try_emplace(built_in_kind(*seat.pci).name, bytes);
      at->second = std::min(at->second, bytes);
    }
  }

  [[nodiscard]] const DeviceKind& built_in_kind(const NcclPci& pci) const {
    if (import_.kind) return *import_.kind;
    const std::string& name = pci.gpu->name;
    const std::optional<std::int64_t> id = pci.gpu->device_id;
    const auto* const known = std::ranges::find_if(kKnownGpus, [&](const KnownGpu& gpu) {
      return name.empty() ? gpu.device_id == id : gpu.name == name;
    });
    if (known == kKnownGpus.end()) {
      const std::string what = !name.empty() ? fmt::format("is of the unknown kind \"{}\"", name)
                               : id          ? fmt::format("has the unknown PCI device id {:#06x}", *id)
                                             : "has no PCI device id of NVIDIA";
      fail(pci.line, fmt::format("GPU {} {}; its kind must be given (--device KIND), one of {}", pci.bus_id,
                                 what, list_names(built_in_device_kind_names())));
    }
    return *find_built_in_device_kind(known->kind);
  }

  [[noreturn]] void fail(std::int64_t line, const std::string& what) const {
    throw InputError(line == 0 ? fmt::format("{}: {}", import_.source, what)
                               : fmt::format("{}:{}: {}", import_.source, line, what));
  }

  // 75 % of what the lanes carry.
  Cable pcie_cable(const NcclPci& pci) {
    constexpr std::array<std::pair<std::string_view, double>, 6> rates{
        {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}}};
    double rate = 60;  // 100 Mbit/s a lane
    std::int64_t width = 16;
    const std::string_view speed =
        std::string_view(pci.link_speed).substr(0, pci.link_speed.find_first_of(" "));
    const std::string_view digits = speed.ends_with(".0") ? speed.substr(0, speed.size() - 2) : speed;
    const auto* const known = std::ranges::find(rates, digits, &std::pair<std::string_view, double>::first);
    if (known != rates.end()) rate = known->second;
    if (pci.link_width > 0) width = pci.link_width;
    if (known == rates.end() || pci.link_width == 0)
      note("links of PCIe whose speed or width is not told count as PCIe 3.0 and as 16 lanes");
    constexpr double to_gigabytes = 80;
    return duplex(static_cast<double>(width) * rate / to_gigabytes, kHalfMicrosecond);
  }

  static Cable net_cable(const NcclNet& net) {
    constexpr double payload = 12 / 12.5, megabits_a_gigabyte = 8'000, both_ends = 2;
    const Seconds latency = net.latency > 0 ? Seconds(net.latency / 1e6 / both_ends) : kNetworkLatency;
    return duplex(static_cast<double>(net.speed) / megabits_a_gigabyte * payload, latency);
  }

  void add_nic(const NcclNet& net, DraftVertex at, Cable bus) {
    if (!networked_) return;
    const DraftVertex nic = draft_.add_nic(fmt::format("{}nic{}", prefix_, nics_of_host_++), node_);
    draft_.connect(at, nic, bus);
    draft_.connect(nic, network_, net_cable(net));
    ++nics_;
  }

  void add_below(const NcclPci& pci, DraftVertex parent) {
    if (!leads_anywhere(pci, networked_)) return;
    const Cable bus = pcie_cable(pci);
    if (pci.gpu) {
      draft_.connect(gpus_.at(pci.bus_id), parent, bus);
      return;
    }
    for (const NcclNet& net : pci.nets) add_nic(net, parent, bus);
    if (pci.below.empty()) return;
    const DraftVertex bridge = draft_.add_switch(fmt::format("{}pcie{}", prefix_, bridges_++), node_);
    draft_.connect(bridge, parent, bus);
    for (const NcclPci& below : pci.below) add_below(below, bridge);
  }

  void add_nvlinks() {
    std::optional<DraftVertex> nvswitch;
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    bool any = false;
    for (const Seat& seat : seats_) {
      const NcclGpu& gpu = *seat.pci->gpu;
      const DraftVertex vertex = gpus_.at(seat.pci->bus_id);
      std::int64_t to_switch = 0, to_cpu = 0;
      for (const NcclNvlink& link : gpu.nvlinks) {
        if (!gpu.compute_capability) fail(link.line, "NVLinks of a <gpu> without sm: their rate is unknown");
        any = true;
        if (link.to == NcclNvlink::To::Switch) to_switch += link.count;
        if (link.to == NcclNvlink::To::Cpu) to_cpu += link.count;
        if (link.to == NcclNvlink::To::Gpu) connect_pair(*seat.pci, link, pairs);
      }
      if (to_switch > 0) {
        if (!nvswitch) nvswitch = draft_.add_switch(prefix_ + "nvswitch", node_);
        draft_.connect(vertex, *nvswitch, duplex(nvlinks_rate(gpu, to_switch), kHalfMicrosecond));
      }
      const double socket = nvlinks_rate(gpu, to_cpu) + gpu.chip_to_chip;
      if (socket > 0) draft_.connect(vertex, socket_of_.at(seat.cpu), duplex(socket, kHalfMicrosecond));
    }
    if (!any) note("found no NVLinks");
  }

  // Both ends tell of a link; each pair is connected once.
  void connect_pair(const NcclPci& from, const NcclNvlink& link,
                    std::map<std::pair<std::string, std::string>, std::int64_t>& pairs) {
    const auto to = gpus_.find(link.bus_id);
    if (to == gpus_.end() || link.bus_id == from.bus_id)
      fail(link.line, fmt::format("NVLinks lead to {}, which is no other GPU of the host", link.bus_id));
    const auto [at, first] = pairs.try_emplace(std::minmax(from.bus_id, link.bus_id), link.count);
    if (first) {
      draft_.connect(gpus_.at(from.bus_id), to->second,
                     duplex(nvlinks_rate(*from.gpu, link.count), kMicrosecond));
    } else if (at->second != link.count) {
      fail(link.line, fmt::format("{} NVLinks between {} and {}, which were {} from the other end",
                                  link.count, from.bus_id, link.bus_id, at->second));
    }
  }

  const NcclImport& import_;
  std::int64_t line_;
  TopologyDraft draft_;
  std::vector<std::vector<const NcclCpu*>> hosts_;
  std::map<std::string, std::int64_t> memory_;  // bytes, by kind
  std::vector<std::string> notes_;
  bool networked_ = false;
  DraftVertex network_;
  std::size_t nics_ = 0;
  // The host that is being added:
  std::int32_t node_ = 0;
  std::string prefix_;
  std::vector<Seat> seats_;
  std::map<std::string, DraftVertex> gpus_;  // by bus id
  std::map<const NcclCpu*, DraftVertex> socket_of_;
  std::size_t bridges_ = 0, nics_of_host_ = 0;
};

}  // namespace

ImportedTopology topology_of(const NcclDump& dump, const NcclImport& import) {
  return NcclBuilder(dump, import).build();
}

}  // namespace pipesim

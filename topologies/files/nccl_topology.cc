#include "topologies/files/nccl_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/device_kinds.h"
#include "topologies/files/link_rates.h"
#include "topologies/files/nccl_completion.h"
#include "topologies/files/pci_devices.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

constexpr double kGigabytes = 1e9;
constexpr Seconds kHalfMicrosecond{0.5e-6}, kMicrosecond{1e-6}, kNetworkLatency{1.35e-6};

Cable duplex(double gigabytes_per_second, Seconds latency) {
  return {BytesPerSecond(gigabytes_per_second * kGigabytes), latency, true};
}

// A GPU and where it sits.
struct Seat {
  const NcclPci* pci = nullptr;
  const NcclCpu* cpu = nullptr;
  std::size_t host = 0;  // of its domain
};

// GPUs of several hosts may have the same bus id.
using Place = std::pair<std::size_t, std::string>;
Place place_of(const Seat& seat) { return {seat.host, bus_key(seat.pci->bus_id)}; }

using Host = std::vector<const NcclCpu*>;
using Domain = std::vector<Host>;

// Anything that leads to a GPU, or to a NIC where NICs count.
bool leads_anywhere(const NcclPci& pci, bool networked) {
  return pci.gpu || (networked && !pci.nets.empty()) ||
         std::ranges::any_of(pci.below, [&](const NcclPci& p) { return leads_anywhere(p, networked); });
}

void collect_gpus(const std::vector<NcclPci>& below, const NcclCpu& cpu, std::size_t host,
                  std::vector<Seat>& seats) {
  for (const NcclPci& pci : below) {
    if (pci.gpu) seats.push_back({&pci, &cpu, host});
    collect_gpus(pci.below, cpu, host, seats);
  }
}

std::vector<Seat> seats_of(const Domain& domain) {
  std::vector<Seat> seats;
  for (std::size_t host = 0; host < domain.size(); ++host) {
    for (const NcclCpu* cpu : domain[host]) collect_gpus(cpu->pci, *cpu, host, seats);
  }
  return seats;
}

std::vector<Host> hosts_of(const NcclDump& dump) {
  std::vector<Host> hosts;
  for (const NcclCpu& cpu : dump.cpus) {
    const auto at = std::ranges::find(hosts, cpu.host, [](const auto& cpus) { return cpus.front()->host; });
    (at == hosts.end() ? hosts.emplace_back() : *at).push_back(&cpu);
  }
  std::erase_if(hosts, [](const Host& host) { return seats_of({host}).empty(); });
  return hosts;
}

// Whether a GPU of the host has NVLinks to switches, and whether these may be shared with other hosts.
bool reaches_switches(const Host& host, bool shared) {
  return std::ranges::any_of(seats_of({host}), [&](const Seat& seat) {
    return std::ranges::any_of(seat.pci->gpu->nvlinks, [&](const NcclNvlink& link) {
      return link.to == NcclNvlink::To::Switch &&
             (!shared || !link.seen || seat.cpu->architecture == "arm64");
    });
  });
}

// Who makes a kind; "": it is not built in, and nobody tells.
std::string_view maker_of_kind(const std::string& kind) {
  if (find_built_in_device_kind(kind) == nullptr) return "";
  if (kind.starts_with("TPU")) return "Google";
  return amd_architecture_of(kind).empty() ? "NVIDIA" : "AMD";
}

// Whose GPU it is; "": the file does not tell.
std::string_view maker_of(const NcclPci& gpu) {
  const bool by_id = gpu.vendor == kNvidiaVendor || gpu.vendor == kAmdVendor;
  const std::int64_t vendor = by_id ? gpu.vendor : gpu.gpu->maker;
  return vendor == kNvidiaVendor ? "NVIDIA" : vendor == kAmdVendor ? "AMD" : "";
}

class NcclBuilder {
 public:
  NcclBuilder(NcclDump dump, const NcclImport& import)
      : import_(import),
        dump_(std::move(dump)),
        line_(dump_.line),
        draft_(import.name, import.origin.empty() ? "NCCL topology " + import.source : import.origin) {
    complete_as_nccl(dump_, import.kind, notes_);
    std::vector<Host> hosts = hosts_of(dump_);
    if (hosts.empty())
      fail(line_,
           "found no GPU; where a file names bridges and NICs alone, NCCL finds the GPUs on the machine, and "
           "writes them where NCCL_TOPO_DUMP_FILE names a file");
    std::vector<Seat> seats;
    for (const Host& host : hosts) std::ranges::copy(seats_of({host}), std::back_inserter(seats));
    if (const auto gpus = static_cast<std::int64_t>(seats.size()); gpus > max_devices / import.copies)
      fail(line_, fmt::format("found {} GPUs, {} times; allowed: up to {} in all", gpus, import.copies,
                              max_devices));
    if (import.kind) check_maker(*import.kind, seats);
    find_memory(seats);
    find_domains(std::move(hosts));
  }

  ImportedTopology build() && {
    const auto nodes = static_cast<std::int64_t>(domains_.size()) * copies_;
    networked_ = nodes > 1;
    if (networked_) network_ = draft_.add_switch("network");
    for (std::int64_t copy = 0; copy < copies_; ++copy) {
      for (const Domain& domain : domains_) add_domain(domain);
    }
    if (networked_ && nics_ == 0)
      fail(line_, fmt::format("found no <net>, and {} {} need a network", nodes,
                              domains_.size() == 1 && domains_[0].size() > 1 ? "NVLink domains" : "hosts"));
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

  void find_domains(std::vector<Host> hosts) {
    const bool several = hosts.size() > 1;
    const auto all = [&](bool shared) {
      return std::ranges::all_of(hosts, [&](const Host& host) { return reaches_switches(host, shared); });
    };
    if (import_.domain == NvlinkDomain::Joined && (several || import_.copies > 1)) {
      if (!all(false))
        fail(line_,
             "--nvlink-domain joined: a host has no NVLinks to NVSwitches, which could join it to others");
      Domain& domain = domains_.emplace_back();
      for (std::int64_t copy = 0; copy < import_.copies; ++copy)
        std::ranges::copy(hosts, std::back_inserter(domain));
      copies_ = 1;
      return;
    }
    if (several && import_.domain == NvlinkDomain::Auto && all(true)) {
      note(
          fmt::format("{} hosts are one NVLink domain and one node, as NCCL joins the hosts of a file; "
                      "--nvlink-domain hosts keeps them apart",
                      hosts.size()));
      domains_.push_back(std::move(hosts));
      return;
    }
    if (several && import_.domain == NvlinkDomain::Auto)
      note(all(false)
               ? "NVSwitches of different hosts are taken to be apart; --nvlink-domain joined joins them"
               : "hosts are taken to be apart, on one network: not all have NVLinks to NVSwitches");
    if (!several && import_.copies > 1 && import_.domain == NvlinkDomain::Auto &&
        hosts.front().front()->architecture == "arm64" && all(true))
      note(
          "copies of the host are taken to be NVLink domains of their own; --nvlink-domain joined makes them "
          "one, "
          "as in an NVL72");
    for (Host& host : hosts) domains_.push_back({std::move(host)});
  }

  void add_domain(const Domain& domain) {
    const std::string name = fmt::format("node{}", draft_.num_nodes());
    node_ = draft_.add_node(name);
    prefix_ = networked_ ? name + "." : "";
    gpus_.clear();
    bridges_ = nics_of_node_ = sockets_ = 0;
    add_gpus(domain);
    for (host_ = 0; host_ < domain.size(); ++host_) add_host(domain[host_]);
    add_nvlinks();
  }

  void add_host(const Host& cpus) {
    constexpr std::size_t most_sockets = 256;
    if (cpus.size() > most_sockets)
      fail(line_, fmt::format("a host has {} <cpu>, allowed: up to {}", cpus.size(), most_sockets));
    const bool of_amd = std::ranges::any_of(
        seats_of({cpus}), [](const Seat& seat) { return !seat.pci->gpu->architecture.empty(); });
    if (cpus.size() > 1 && !knows_processor(*cpus.front()))
      note("processors that NCCL does not know, or that are not told, count as 6 GB/s between them");
    std::vector<DraftVertex> sockets;
    for (const NcclCpu* cpu : cpus) {
      sockets.push_back(draft_.add_switch(fmt::format("{}cpu{}", prefix_, sockets_++), node_));
      socket_of_[{host_, cpu}] = sockets.back();
      for (std::size_t other = 0; other + 1 < sockets.size(); ++other)
        draft_.connect(sockets[other], sockets.back(),
                       duplex(between_processors(*cpu, of_amd), kHalfMicrosecond));
    }
    for (const NcclCpu* cpu : cpus) {
      for (const NcclPci& pci : cpu->pci) add_below(pci, socket_of_.at({host_, cpu}));
      for (const NcclNet& net : cpu->nets) add_nic(net, socket_of_.at({host_, cpu}), net_cable(net));
    }
  }

  // Host by host in the order of their numbers, where they have any.
  void add_gpus(const Domain& domain) {
    seats_ = seats_of(domain);
    const auto number = [](const Seat& seat) {
      return std::pair(seat.host, seat.pci->gpu->number.value_or(-1));
    };
    std::ranges::stable_sort(seats_, {}, number);
    const bool numbered = domain.size() == 1 && number(seats_.front()).second >= 0 &&
                          std::ranges::adjacent_find(seats_, {}, number) == seats_.end();
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const std::int64_t called = numbered ? number(seats_[i]).second : static_cast<std::int64_t>(i);
      const DraftVertex gpu = draft_.add_device(fmt::format("{}gpu{}", prefix_, called),
                                                draft_.kind(kind_of(*seats_[i].pci)), node_);
      if (!gpus_.try_emplace(place_of(seats_[i]), gpu).second)
        fail(seats_[i].pci->line, fmt::format("busid {} was found before", seats_[i].pci->bus_id));
    }
  }

  [[nodiscard]] DeviceKind kind_of(const NcclPci& pci) {
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

  [[nodiscard]] const DeviceKind& built_in_kind(const NcclPci& pci) {
    if (import_.kind) return *import_.kind;
    const GpuProduct* product = product_of(pci, import_.kind);
    const bool of_several = product != nullptr && product->name.find('/') != std::string_view::npos;
    if (product != nullptr && !of_several) return *find_built_in_device_kind(product->kind);
    if (!pci.gpu->architecture.empty()) {
      if (const std::string_view kind = amd_kind_of(pci.gpu->architecture, pci.gpu->units); !kind.empty()) {
        note(fmt::format("GPUs of {}{} are taken for {}", pci.gpu->architecture,
                         pci.gpu->units > 0 ? fmt::format(" with {} compute units", pci.gpu->units) : "",
                         kind));
        return *find_built_in_device_kind(kind);
      }
    }
    refuse_kind(pci);
  }

  // The names of all kinds of a maker; of all kinds where it is "".
  static std::vector<std::string> kinds_of(std::string_view maker) {
    std::vector<std::string> names = built_in_device_kind_names();
    if (!maker.empty())
      std::erase_if(names, [&](const std::string& name) { return maker_of_kind(name) != maker; });
    return names;
  }

  // Links are of the file's maker and their rates go by the kind, so both must be of one maker.
  void check_maker(const DeviceKind& kind, const std::vector<Seat>& seats) const {
    const std::string_view maker = maker_of_kind(kind.name);
    for (const Seat& seat : seats) {
      const std::string_view told = maker_of(*seat.pci);
      if (!maker.empty() && !told.empty() && maker != told)
        fail(seat.pci->line,
             fmt::format("found --device {}, a kind of {}, for {}, which is of {}; allowed: {}, or a .json "
                         "file with a kind of your own",
                         kind.name, maker, called(*seat.pci), told, list_names(kinds_of(told))));
    }
  }

  [[noreturn]] void refuse_kind(const NcclPci& pci) const {
    const NcclGpu& gpu = *pci.gpu;
    const std::string what =
        !gpu.name.empty()           ? fmt::format("is of the unknown kind \"{}\"", gpu.name)
        : !gpu.architecture.empty() ? fmt::format("is AMD's {}, of which there is no kind", gpu.architecture)
        : pci.vendor == kAmdVendor
            ? fmt::format("is AMD's with the unknown PCI device id {:#06x}", pci.device_id)
        : pci.vendor == kNvidiaVendor ? fmt::format("has the unknown PCI device id {:#06x}", pci.device_id)
                                      : "has no PCI device id of NVIDIA";
    const bool addressed = pci.vendor != 0 || !pci.bus_id.starts_with("GPU");
    fail(pci.line, fmt::format("{} {}; its kind must be given (--device KIND), one of {}", called(pci),
                               addressed || !gpu.name.empty() ? what : "has no name here",
                               list_names(kinds_of(maker_of(pci)))));
  }

  [[noreturn]] void fail(std::int64_t line, const std::string& what) const {
    throw InputError(line == 0 ? fmt::format("{}: {}", import_.source, what)
                               : fmt::format("{}:{}: {}", import_.source, line, what));
  }

  Cable pcie_cable(const NcclPci& pci) {
    const PcieRate rate = pcie_rate(pci);
    if (rate.guessed)
      note("links of PCIe whose speed or width is not told count as PCIe 3.0 and as 16 lanes");
    return duplex(rate.gigabytes, kHalfMicrosecond);
  }

  static Cable net_cable(const NcclNet& net) {
    constexpr double payload = 12 / 12.5, megabits_a_gigabyte = 8'000, both_ends = 2;
    const Seconds latency = net.latency > 0 ? Seconds(net.latency / 1e6 / both_ends) : kNetworkLatency;
    return duplex(static_cast<double>(net.speed) / megabits_a_gigabyte * payload, latency);
  }

  void add_nic(const NcclNet& net, DraftVertex at, Cable bus) {
    if (!networked_) return;
    const DraftVertex nic = draft_.add_nic(fmt::format("{}nic{}", prefix_, nics_of_node_++), node_);
    draft_.connect(at, nic, bus);
    draft_.connect(nic, network_, net_cable(net));
    ++nics_;
  }

  void add_below(const NcclPci& pci, DraftVertex parent) {
    if (!leads_anywhere(pci, networked_)) return;
    const Cable bus = pcie_cable(pci);
    if (pci.gpu) {
      draft_.connect(gpus_.at({host_, bus_key(pci.bus_id)}), parent, bus);
      return;
    }
    for (const NcclNet& net : pci.nets) add_nic(net, parent, bus);
    if (pci.below.empty()) return;
    const DraftVertex bridge = draft_.add_switch(fmt::format("{}pcie{}", prefix_, bridges_++), node_);
    draft_.connect(bridge, parent, bus);
    for (const NcclPci& below : pci.below) add_below(below, bridge);
  }

  // GB/s of one link.
  [[nodiscard]] double link_rate(const NcclGpu& gpu, const NcclNvlink& link) const {
    if (!gpu.architecture.empty()) return xgmi_gigabytes(gpu.architecture);
    if (!gpu.compute_capability) fail(link.line, "NVLinks of a <gpu> without sm: their rate is unknown");
    return nvlink_gigabytes(*gpu.compute_capability);
  }

  void add_nvlinks() {
    std::optional<DraftVertex> nvswitch;
    std::map<std::pair<Place, Place>, std::int64_t> pairs;
    for (const Seat& seat : seats_) {
      const NcclGpu& gpu = *seat.pci->gpu;
      const DraftVertex vertex = gpus_.at(place_of(seat));
      std::int64_t to_switch = 0, to_cpu = 0;
      double rate = 0;  // of one link
      for (const NcclNvlink& link : gpu.nvlinks) {
        rate = link_rate(gpu, link);
        if (link.to == NcclNvlink::To::Switch) to_switch += link.count;
        if (link.to == NcclNvlink::To::Cpu) to_cpu += link.count;
        if (link.to == NcclNvlink::To::Gpu) connect_pair(seat, link, rate, pairs);
      }
      if (to_switch > 0) {
        if (!nvswitch) nvswitch = draft_.add_switch(prefix_ + "nvswitch", node_);
        draft_.connect(vertex, *nvswitch, duplex(rate * static_cast<double>(to_switch), kHalfMicrosecond));
      }
      const double socket = rate * static_cast<double>(to_cpu) + gpu.chip_to_chip;
      if (socket > 0)
        draft_.connect(vertex, socket_of_.at({seat.host, seat.cpu}), duplex(socket, kHalfMicrosecond));
    }
  }

  // Both ends tell of a link; each pair is connected once.
  void connect_pair(const Seat& from, const NcclNvlink& link, double rate,
                    std::map<std::pair<Place, Place>, std::int64_t>& pairs) {
    const Place here = place_of(from), there{from.host, bus_key(link.bus_id)};
    const auto [at, first] = pairs.try_emplace(std::minmax(here, there), link.count);
    if (first) {
      draft_.connect(gpus_.at(here), gpus_.at(there),
                     duplex(rate * static_cast<double>(link.count), kMicrosecond));
    } else if (at->second != link.count) {
      fail(link.line, fmt::format("{} {} between {} and {}, which were {} from the other end", link.count,
                                  from.pci->gpu->architecture.empty() ? "NVLinks" : "xGMI links",
                                  from.pci->bus_id, link.bus_id, at->second));
    }
  }

  const NcclImport& import_;
  NcclDump dump_;
  std::int64_t line_;
  TopologyDraft draft_;
  std::vector<Domain> domains_;
  std::int64_t copies_ = import_.copies;        // of the domains
  std::map<std::string, std::int64_t> memory_;  // bytes, by kind
  std::vector<std::string> notes_;
  bool networked_ = false;
  DraftVertex network_;
  std::size_t nics_ = 0;
  // The domain that is being added, and its host:
  std::int32_t node_ = 0;
  std::string prefix_;
  std::vector<Seat> seats_;
  std::size_t host_ = 0;
  std::map<Place, DraftVertex> gpus_;
  std::map<std::pair<std::size_t, const NcclCpu*>, DraftVertex> socket_of_;  // by host and processor
  std::size_t bridges_ = 0, nics_of_node_ = 0, sockets_ = 0;
};

}  // namespace

ImportedTopology topology_of(NcclDump dump, const NcclImport& import) {
  return NcclBuilder(std::move(dump), import).build();
}

}  // namespace pipesim

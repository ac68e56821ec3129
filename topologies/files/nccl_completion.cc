#include "topologies/files/nccl_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "topologies/cube_mesh.h"
#include "topologies/files/cloud_machines.h"
#include "topologies/files/link_rates.h"

namespace pipesim {
namespace {

void add_line(std::vector<std::string>& notes, std::string text) {
  if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
}

std::string_view links_name(const NcclPci& gpu) {
  return gpu.gpu->architecture.empty() ? "NVLinks" : "xGMI links";
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Links that lead nowhere.
struct LeftOut {
  std::set<std::string> gpus;  // to which they lead
  std::int64_t line = 0;
};

// The generation of a Broadcom switch that shows itself as a tree of two levels, though all its ports are
// alike; 0: none (src/graph/topo.cc, getBcmGen).
int two_level_switch(const NcclPci& pci, int level) {
  constexpr std::int64_t broadcom = 0x1000, fourth = 0xc010, fifth = 0xc030, series = 0xf000;
  if (pci.vendor != broadcom || pci.subsystem_vendor != broadcom) return 0;
  const std::int64_t shown = pci.subsystem_device & series;
  if (pci.device_id == fourth && shown == 0xa000) return 4;
  return pci.device_id == fifth && shown == level * 0x1000 ? 5 : 0;
}

// Makes one switch of both levels, as NCCL does.
void flatten_switches(std::vector<NcclPci>& devices) {
  for (NcclPci& pci : devices) {
    if (const int generation = two_level_switch(pci, 0); generation > 0) {
      std::vector<NcclPci> below;
      for (NcclPci& port : pci.below) {
        if (!port.below.empty() && two_level_switch(port, 1) == generation) {
          std::ranges::move(port.below, std::back_inserter(below));
        } else {
          below.push_back(std::move(port));
        }
      }
      pci.below = std::move(below);
    }
    flatten_switches(pci.below);
  }
}

// One host of a dump.
class HostCompletion {
 public:
  HostCompletion(std::vector<NcclCpu*> cpus, const std::optional<DeviceKind>& kind,
                 std::vector<std::string>& notes)
      : cpus_(std::move(cpus)), kind_(kind), notes_(notes) {
    for (NcclCpu* cpu : cpus_) {
      networked_ = networked_ || !cpu->nets.empty();
      for (NcclPci& pci : cpu->pci) collect(pci);
    }
  }

  void complete() {
    if (gpus_.empty()) return;
    name_devices();
    for (NcclPci* pci : gpus_) complete_gpu(*pci);
    resolve_links();
    if (!any_links()) add_links();
    report_missing_links();
    if (!networked_) {
      add_nets();
    } else if (!nics_.empty()) {
      add_line(notes_, fmt::format("line {}: {} without <net>, beside others that have one, left out",
                                   nics_.front()->line, counted(nics_.size(), "NIC")));
    }
  }

 private:
  void collect(NcclPci& pci) {
    if (pci.gpu) gpus_.push_back(&pci);
    if (pci.nic && pci.nets.empty()) nics_.push_back(&pci);
    networked_ = networked_ || !pci.nets.empty();
    for (NcclPci& below : pci.below) collect(below);
  }

  [[nodiscard]] bool any_links() const {
    return std::ranges::any_of(gpus_, [](const NcclPci* pci) { return !pci->gpu->nvlinks.empty(); });
  }

  // Devices without any PCI id, as in the files of Azure and Oracle.
  void name_devices() {
    if (std::ranges::any_of(gpus_, [](const NcclPci* pci) { return pci->vendor != 0 || !pci->gpu->bare; }))
      return;
    machine_ = find_cloud_machine(*cpus_.front(), std::vector<const NcclPci*>(gpus_.begin(), gpus_.end()));
    if (machine_ == nullptr || kind_) return;
    const GpuProduct* product = product_of_kind(machine_->kind);
    for (NcclPci* pci : gpus_) {
      pci->vendor = product->vendor;
      pci->device_id = product->device_id;
    }
    add_line(notes_,
             fmt::format("no PCI ids: by addresses and processor a part of {}; GPUs are taken for {}{}",
                         machine_->name, machine_->kind,
                         machine_->other_kind.empty()
                             ? ""
                             : fmt::format("; --device {} takes them for the others that it has",
                                           machine_->other_kind)));
  }

  void complete_gpu(NcclPci& pci) const {
    const GpuProduct* product = product_of(pci, kind_);
    if (product == nullptr) return;
    if (!pci.gpu->compute_capability && product->compute_capability > 0)
      pci.gpu->compute_capability = product->compute_capability;
    if (pci.gpu->architecture.empty()) pci.gpu->architecture = amd_architecture_of(product->kind);
  }

  // NCCL connects what it knows: a container with some of a machine's GPUs sees NVLinks to the others.
  void resolve_links() {
    std::set<std::string> here;
    for (const NcclPci* pci : gpus_) here.insert(bus_key(pci->bus_id));
    LeftOut foreign, own;
    for (NcclPci* pci : gpus_) {
      for (NcclNvlink& link : pci->gpu->nvlinks) {
        if (link.to == NcclNvlink::To::Untold)
          link.to = here.contains(bus_key(link.bus_id)) ? NcclNvlink::To::Gpu : NcclNvlink::To::Switch;
      }
      std::erase_if(pci->gpu->nvlinks, [&](const NcclNvlink& link) {
        if (link.to != NcclNvlink::To::Gpu) return false;
        const bool itself = bus_key(link.bus_id) == bus_key(pci->bus_id);
        if (!itself && here.contains(bus_key(link.bus_id))) return false;
        LeftOut& left_out = itself ? own : foreign;
        left_out.gpus.insert(link.bus_id);
        if (left_out.line == 0) left_out.line = link.line;
        return true;
      });
    }
    if (!foreign.gpus.empty())
      add_line(notes_, fmt::format("line {}: links to {} that the file does not list are left out ({}{})",
                                   foreign.line, counted(foreign.gpus.size(), "GPU"), *foreign.gpus.begin(),
                                   foreign.gpus.size() == 1 ? "" : ", …"));
    if (!own.gpus.empty())
      add_line(notes_, fmt::format("line {}: links of {} to themselves are left out ({}{})", own.line,
                                   counted(own.gpus.size(), "GPU"), *own.gpus.begin(),
                                   own.gpus.size() == 1 ? "" : ", …"));
  }

  // NVLinks of GPUs of which the file tells nothing, by their product.
  void add_links() {
    std::map<const GpuProduct*, std::vector<NcclPci*>> by_product;
    std::size_t bare = 0;
    for (NcclPci* pci : gpus_) {
      const GpuProduct* product = product_of(*pci, kind_);
      if (!pci->gpu->bare || product == nullptr) continue;
      by_product[product].push_back(pci);
      ++bare;
    }
    if (bare < gpus_.size()) return;
    for (auto& [product, gpus] : by_product) add_links(*product, gpus);
  }

  void add_links(const GpuProduct& product, const std::vector<NcclPci*>& gpus) {
    using enum GpuProduct::Wiring;
    const std::string of = fmt::format("{} of {}", counted(gpus.size(), "GPU"), product.kind);
    switch (product.wiring) {
      case None:
        break;
      case Switch:
        for (NcclPci* pci : gpus)
          pci->gpu->nvlinks.push_back({NcclNvlink::To::Switch, "", product.links, pci->line});
        add_line(notes_,
                 fmt::format("added, as NCCL finds them on the machine: {} NVLinks to NVSwitches from "
                             "{}{} ({}){}",
                             product.links, gpus.size() == 1 ? "" : "each of ", of, product.name,
                             gpus.size() == 4 && product.compute_capability <= 90
                                 ? "; boards of four without NVSwitch have them between every two"
                                 : ""));
        break;
      case CubeMesh:
        add_cube_mesh(of, gpus);
        break;
      case Mesh:
        if (gpus.size() < 2 || gpus.size() > static_cast<std::size_t>(product.links) + 1) break;
        for (NcclPci* from : gpus) {
          for (const NcclPci* to : gpus) {
            if (from != to) from->gpu->nvlinks.push_back({NcclNvlink::To::Gpu, to->bus_id, 1, from->line});
          }
        }
        add_line(notes_,
                 fmt::format("added, as RCCL finds them on the machine: an xGMI link between every two "
                             "of {}",
                             of));
        break;
      case Bridge:
      case Unknown:
        if (gpus.size() > 1)
          add_line(notes_, fmt::format("no links are added between {}: {}", of,
                                       product.wiring == Bridge
                                           ? "whether bridges are mounted is not known"
                                           : "how they are wired differs from machine to machine"));
    }
  }

  void add_cube_mesh(const std::string& of, const std::vector<NcclPci*>& gpus) {
    constexpr std::size_t whole = 8, quad = 4;
    if (gpus.size() != whole && gpus.size() != quad) {
      if (gpus.size() > 1)
        add_line(notes_, fmt::format("no NVLinks are added between {}: of a DGX-1, 4 or 8 are known", of));
      return;
    }
    for (const auto [a, b, links] : kCubeMesh) {
      if (a >= gpus.size() || b >= gpus.size()) continue;
      gpus[a]->gpu->nvlinks.push_back({NcclNvlink::To::Gpu, gpus[b]->bus_id, links, gpus[a]->line});
      gpus[b]->gpu->nvlinks.push_back({NcclNvlink::To::Gpu, gpus[a]->bus_id, links, gpus[b]->line});
    }
    add_line(notes_,
             fmt::format("added: NVLinks between {} as in a DGX-1, in the order of the file, which is a "
                         "guess",
                         of));
  }

  void report_missing_links() {
    const std::size_t without = static_cast<std::size_t>(
        std::ranges::count_if(gpus_, [](const NcclPci* pci) { return pci->gpu->nvlinks.empty(); }));
    if (without == gpus_.size()) {
      report_no_links();
      return;
    }
    std::set<std::pair<std::string, std::string>> ends;
    std::set<std::string> reached;
    for (const NcclPci* pci : gpus_) {
      for (const NcclNvlink& link : pci->gpu->nvlinks) {
        if (link.to != NcclNvlink::To::Gpu) continue;
        ends.emplace(bus_key(pci->bus_id), bus_key(link.bus_id));
        reached.insert(bus_key(link.bus_id));
      }
    }
    for (const NcclPci* pci : gpus_) {
      if (pci->gpu->nvlinks.empty() && !reached.contains(bus_key(pci->bus_id)))
        add_line(
            notes_,
            fmt::format("line {}: {} has no {}, though {} of its host {}; it is reached over PCIe", pci->line,
                        called(*pci), links_name(*pci), counted(gpus_.size() - without, "other"),
                        gpus_.size() - without == 1 ? "does" : "do"));
      for (const NcclNvlink& link : pci->gpu->nvlinks) {
        if (link.to == NcclNvlink::To::Gpu && !ends.contains({bus_key(link.bus_id), bus_key(pci->bus_id)}))
          add_line(notes_, fmt::format("line {}: {} from {} to {} are told from one end only; they count",
                                       link.line, links_name(*pci), pci->bus_id, link.bus_id));
      }
      report_many_links(*pci);
    }
  }

  void report_no_links() {
    using enum GpuProduct::Wiring;
    const GpuProduct* product = product_of(*gpus_.front(), kind_);
    const bool expected =
        product != nullptr && gpus_.size() > 1 &&
        (product->wiring == Switch || product->wiring == CubeMesh || product->wiring == Mesh);
    const std::string links = fmt::format("found no {}", links_name(*gpus_.front()));
    add_line(notes_, expected ? fmt::format("{}, which {} has; these GPUs are taken to be without", links,
                                            product->kind)
                              : links);
  }

  void report_many_links(const NcclPci& pci) {
    const GpuProduct* product = product_of(pci, kind_);
    std::int64_t sum = 0;
    for (const NcclNvlink& link : pci.gpu->nvlinks) sum += link.count;
    if (product != nullptr && product->vendor == kNvidiaVendor && product->links > 0 && sum > product->links)
      add_line(notes_, fmt::format("line {}: {} has {} NVLinks, and {} has {}", pci.line, called(pci), sum,
                                   product->kind, product->links));
  }

  // NICs of which the file names the PCI device only.
  void add_nets() {
    std::map<std::pair<std::string, std::int64_t>, std::size_t> known, guessed;
    for (NcclPci* pci : nics_) {
      const NicProduct* product = find_nic_product(pci->vendor, pci->device_id);
      constexpr std::int64_t megabits = 1'000;
      if (product != nullptr && product->gigabits == 0) {
        add_line(notes_, fmt::format("line {}: {} is left out: {} has no RDMA, and serves the host",
                                     pci->line, pci->bus_id, product->name));
        continue;
      }
      if (product != nullptr) {
        pci->nets.push_back({pci->bus_id, product->gigabits * megabits, product->microseconds});
        ++known[{std::string(product->name), product->gigabits}];
        continue;
      }
      const std::int64_t gigabits = machine_ != nullptr ? machine_->nic_gigabits : by_lanes(*pci);
      pci->nets.push_back({pci->bus_id, gigabits * megabits});
      ++guessed[{machine_ != nullptr ? fmt::format("as {} has", machine_->name)
                                     : "as much as its PCIe lanes carry, since their PCI id is unknown",
                 gigabits}];
    }
    for (const auto& [nic, count] : known)
      add_line(notes_, fmt::format("added by their PCI ids: {} of {} Gbit/s ({}); they count with --nodes",
                                   counted(count, "NIC"), nic.second, nic.first));
    for (const auto& [nic, count] : guessed)
      add_line(notes_, fmt::format("added, a guess: {} of {} Gbit/s, {}; they count with --nodes",
                                   counted(count, "NIC"), nic.second, nic.first));
  }

  // Generations of NICs and of PCIe go together: 100 Gbit/s over 16 lanes of 3.0, and twice as much over each
  // later one.
  static std::int64_t by_lanes(const NcclPci& pci) {
    constexpr double third = 12, hundred = 100;
    const double times = pcie_rate(pci).gigabytes / third;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(times * hundred));
  }

  std::vector<NcclCpu*> cpus_;
  const std::optional<DeviceKind>& kind_;
  std::vector<std::string>& notes_;
  std::vector<NcclPci*> gpus_, nics_;
  const CloudMachine* machine_ = nullptr;
  bool networked_ = false;  // the file has <net>
};

}  // namespace

const GpuProduct* product_of(const NcclPci& gpu, const std::optional<DeviceKind>& kind) {
  const GpuProduct* told =
      gpu.gpu->name.empty() ? find_gpu_product(gpu.vendor, gpu.device_id) : find_gpu_product(gpu.gpu->name);
  if (!kind) return told;
  if (told != nullptr && told->kind == kind->name) return told;
  const GpuProduct* given = product_of_kind(kind->name);
  return given == nullptr ? told : given;
}

void complete_as_nccl(NcclDump& dump, const std::optional<DeviceKind>& kind,
                      std::vector<std::string>& notes) {
  for (const std::string& note : dump.notes) add_line(notes, note);
  std::vector<std::pair<std::string, std::vector<NcclCpu*>>> hosts;
  for (NcclCpu& cpu : dump.cpus) {
    flatten_switches(cpu.pci);
    const auto at = std::ranges::find(hosts, cpu.host, [](const auto& host) { return host.first; });
    (at == hosts.end() ? hosts.emplace_back(cpu.host, std::vector<NcclCpu*>()) : *at).second.push_back(&cpu);
  }
  for (auto& [name, cpus] : hosts) HostCompletion(std::move(cpus), kind, notes).complete();
}

}  // namespace pipesim

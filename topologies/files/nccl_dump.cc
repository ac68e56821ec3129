#include "topologies/files/nccl_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <utility>

#include "sim/base/errors.h"
#include "topologies/files/pci_devices.h"

namespace pipesim {
namespace {

constexpr std::string_view kMade = "NCCL writes it where NCCL_TOPO_DUMP_FILE names a file";

class NcclReader {
 public:
  NcclReader(std::string_view text, const std::string& source) : text_(text), source_(source) {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1))
      line_ends_.push_back(end);
  }

  NcclDump read() {
    pugi::xml_document document;
    const pugi::xml_parse_result result = document.load_buffer(text_.data(), text_.size());
    if (!result) fail(result.offset, fmt::format("found no XML ({}), {}", result.description(), kMade));
    const pugi::xml_node root = document.document_element();
    if (std::string_view(root.name()) != "system")
      fail(root, fmt::format("found <{}>, allowed: <system>; {}", root.name(), kMade));
    constexpr std::size_t most_cpus = 10'000;
    NcclDump dump;
    dump.line = line_of(root);
    for (const pugi::xml_node& child : root.children("cpu")) {
      if (dump.cpus.size() == most_cpus)
        fail(child, fmt::format("found one more <cpu>, allowed: up to {}", most_cpus));
      dump.cpus.push_back(cpu(child));
    }
    if (dump.cpus.empty()) fail(root, fmt::format("found no <cpu> in <system>; {}", kMade));
    dump.notes = std::move(notes_);
    return dump;
  }

 private:
  static constexpr std::int64_t kNumberMissing = -1;

  void note(const pugi::xml_node& node, const std::string& what) {
    constexpr std::size_t most = 40;  // a file may be long
    if (notes_.size() < most) notes_.push_back(fmt::format("line {}: {}", line_of(node), what));
  }

  [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", source_, line_of(offset), what));
  }
  [[noreturn]] void fail(const pugi::xml_node& node, const std::string& what) const {
    fail(node.offset_debug(), what);
  }

  [[nodiscard]] std::int64_t line_of(std::ptrdiff_t offset) const {
    const auto end = std::min(text_.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
    return 1 + (std::ranges::lower_bound(line_ends_, end) - line_ends_.begin());
  }
  [[nodiscard]] std::int64_t line_of(const pugi::xml_node& node) const {
    return line_of(node.offset_debug());
  }

  // Numbers are decimal, or hexadecimal after 0x.
  [[nodiscard]] std::optional<std::int64_t> number(const pugi::xml_node& node, const char* name,
                                                   std::int64_t most) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    std::string_view text = attribute.value();
    if (!attribute || text.empty()) return {};
    const bool hexadecimal = text.starts_with("0x");
    const std::string_view digits = hexadecimal ? text.substr(2) : text;
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size() || value < -1 || value > most)
      fail(node,
           fmt::format("<{}> has {}=\"{}\", allowed: whole numbers up to {}", node.name(), name, text, most));
    return value;
  }
  [[nodiscard]] std::int64_t count(const pugi::xml_node& node, const char* name, std::int64_t most,
                                   std::int64_t least = 1) const {
    const std::optional<std::int64_t> value = number(node, name, most);
    if (!value || *value < least)
      fail(node, fmt::format("<{}> has {}=\"{}\", allowed: {} to {}", node.name(), name,
                             node.attribute(name).value(), least, most));
    return *value;
  }
  // µs; what is no number is 0.
  [[nodiscard]] double latency(const pugi::xml_node& node) const {
    constexpr double most = 1e6;
    const double value = node.attribute("latency").as_double();
    if (value >= 0 && value <= most) return value;
    fail(node, fmt::format("<{}> has latency=\"{}\", allowed: 0 to 1000000 us", node.name(),
                           node.attribute("latency").value()));
  }

  NcclCpu cpu(const pugi::xml_node& node) {
    constexpr std::int64_t most = 1'000;
    NcclCpu result;
    result.host = node.attribute("host_hash").value();
    result.architecture = node.attribute("arch").value();
    result.vendor = node.attribute("vendor").value();
    result.family = number(node, "familyid", most).value_or(0);
    result.model = number(node, "modelid", most).value_or(0);
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "pci") result.pci.push_back(pci(child));
      if (name == "nic") add_nets(child, result.nets);
      if (name == "gpu") fail(child, fmt::format("found <gpu> in <cpu>, allowed: in <pci>; {}", kMade));
    }
    return result;
  }

  NcclPci pci(const pugi::xml_node& node, int depth = 1) {
    constexpr std::int64_t most_lanes = 64, most_id = 0xffff;
    constexpr int most_bridges = 64;
    if (depth > most_bridges)
      fail(node, fmt::format("<pci> stands in {} others, allowed: up to {}", depth - 1, most_bridges - 1));
    NcclPci result;
    result.line = line_of(node);
    result.bus_id = node.attribute("busid").value();
    if (result.bus_id.empty()) fail(node, "<pci> has no busid");
    result.link_speed = node.attribute("link_speed").value();
    result.link_width = std::max<std::int64_t>(number(node, "link_width", most_lanes).value_or(0), 0);
    const auto id = [&](const char* name) {
      return std::max<std::int64_t>(number(node, name, most_id).value_or(0), 0);
    };
    result.vendor = id("vendor");
    result.device_id = id("device");
    result.subsystem_vendor = id("subsystem_vendor");
    result.subsystem_device = id("subsystem_device");
    bool gpu_left_out = false;
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "pci") result.below.push_back(pci(child, depth + 1));
      if (name == "nic") add_nets(child, result.nets);
      if (name != "gpu") continue;
      if (result.gpu)
        fail(child, fmt::format("{} has a second <gpu>, allowed: one; two ranks or two parts of a GPU are no "
                                "two devices",
                                result.bus_id));
      if (number(child, "dev", most_id) == kNumberMissing) {
        note(child,
             fmt::format("GPU {} is left out: its dev is -1, for which NCCL leaves it out", result.bus_id));
        gpu_left_out = true;
        continue;
      }
      result.gpu = gpu(child);
      // RCCL writes compute units as sm, and older ones no gcn.
      if (result.vendor == kAmdVendor && result.gpu->compute_capability)
        result.gpu->units = std::exchange(result.gpu->compute_capability, std::nullopt).value();
    }
    if (!result.gpu && !gpu_left_out) find_bare_device(node, result);
    return result;
  }

  // Files that are given to NCCL instead of dumped by it name nothing but PCI devices.
  void find_bare_device(const pugi::xml_node& node, NcclPci& pci) {
    const std::string_view kind = node.attribute("class").value();
    const bool known_gpu = find_gpu_product(pci.vendor, pci.device_id) != nullptr;
    pci.nic =
        kind.starts_with("0x02") || (kind.empty() && find_nic_product(pci.vendor, pci.device_id) != nullptr);
    const bool accelerator = kind.starts_with("0x1200") && pci.vendor == kAmdVendor;
    if (!kind.starts_with("0x03") && !accelerator && !(kind.empty() && known_gpu)) return;
    if (pci.vendor != 0 && pci.vendor != kNvidiaVendor && pci.vendor != kAmdVendor) {
      note(node,
           fmt::format("{} is left out: a display controller of vendor {:#06x}", pci.bus_id, pci.vendor));
      return;
    }
    if (pci.vendor == 0 && find_gpu_product(kNvidiaVendor, pci.device_id) != nullptr) {
      note(node,
           fmt::format("GPU {} tells no vendor; by its device id it is taken for NVIDIA's", pci.bus_id));
      pci.vendor = kNvidiaVendor;
    }
    pci.gpu.emplace().bare = true;
  }

  [[nodiscard]] NcclGpu gpu(const pugi::xml_node& node) const {
    constexpr std::int64_t most_gpus = 100'000, most_capability = 999, most_links = 1'000;
    NcclGpu result;
    result.number = number(node, "dev", most_gpus);
    const std::optional<std::int64_t> sm = number(node, "sm", most_capability);
    const std::string_view gcn = node.attribute("gcn").value();
    if (gcn.empty()) {
      result.compute_capability = sm;
    } else {
      result.architecture = amd_architecture(gcn);
      result.maker = kAmdVendor;
      result.units = std::max<std::int64_t>(sm.value_or(0), 0);  // what RCCL writes there
    }
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name != "nvlink" && name != "xgmi") continue;
      if (result.maker == 0) result.maker = name == "xgmi" ? kAmdVendor : kNvidiaVendor;
      NcclNvlink link;
      link.line = line_of(child);
      link.count = count(child, "count", most_links);
      link.bus_id = child.attribute("target").value();
      const std::string_view target_class = child.attribute("tclass").value();
      if (target_class.starts_with("0x068001"))
        link.to = NcclNvlink::To::Cpu;
      else if (target_class.empty())
        link.to = NcclNvlink::To::Untold;
      else if (!target_class.starts_with("0x03") && !target_class.starts_with("0x12"))
        link.to = NcclNvlink::To::Switch;
      // A switch that the host does not see is called fffffff:ffff:ff.
      link.seen =
          !link.bus_id.empty() && !link.bus_id.starts_with("fffff") && !link.bus_id.starts_with("FFFFF");
      result.nvlinks.push_back(std::move(link));
    }
    for (const pugi::xml_node& child : node.children("c2c")) {
      constexpr std::int64_t most_megabytes = 10'000'000;
      result.chip_to_chip +=
          static_cast<double>(count(child, "count", most_links) * count(child, "bw", most_megabytes)) / 1e3;
      constexpr double most = 100'000;
      if (result.chip_to_chip > most)
        fail(child, fmt::format("<c2c> makes {:g} GB/s, allowed: up to {:g}", result.chip_to_chip, most));
    }
    return result;
  }

  void add_nets(const pugi::xml_node& nic, std::vector<NcclNet>& nets) {
    constexpr std::int64_t most_nets = 100'000;
    for (const pugi::xml_node& node : nic.children("net")) {
      // NCCL's own reader skips those without a number, which a file names to be found or not, and those that
      // serve another interface than collectives.
      if (number(node, "dev", most_nets).value_or(kNumberMissing) < 0) continue;
      if (number(node, "net", 1).value_or(1) == 0) continue;
      NcclNet net;
      net.name = node.attribute("name").value();
      net.speed = speed(node);
      net.latency = latency(node);
      nets.push_back(std::move(net));
    }
  }

  // Mbit/s. NCCL's unit; some plugins write kbit/s or bit/s. No NIC is faster than 10 Tbit/s, and none that
  // NCCL uses slower than 10 Gbit/s in the larger units.
  std::int64_t speed(const pugi::xml_node& node) {
    constexpr std::int64_t least = 10, most_megabits = 10'000'000, a_thousand = 1'000,
                           most = most_megabits * a_thousand * a_thousand;
    constexpr std::int64_t unknown = 10'000;
    const std::int64_t told = number(node, "speed", most).value_or(0);
    const char* const name = node.attribute("name").value();
    if (told <= 0) {
      note(node, fmt::format("<net> {} tells no speed; it counts as 10 Gbit/s, as NCCL takes it", name));
      return unknown;
    }
    if (told < least || told >= most)
      fail(node,
           fmt::format("<net> has speed=\"{}\", allowed: {} to {} Mbit/s, or the same in kbit/s or bit/s",
                       node.attribute("speed").value(), least, most_megabits));
    if (told < most_megabits) return told;
    const bool kilobits = told < most_megabits * a_thousand;
    const std::int64_t megabits = kilobits ? told / a_thousand : told / a_thousand / a_thousand;
    note(node, fmt::format("<net> {} has speed=\"{}\", which is taken for {}: {:g} Gbit/s", name, told,
                           kilobits ? "kbit/s" : "bit/s",
                           static_cast<double>(megabits) / static_cast<double>(a_thousand)));
    return megabits;
  }

  std::string_view text_;
  const std::string& source_;
  std::vector<std::size_t> line_ends_;
  std::vector<std::string> notes_;
};

}  // namespace

std::string called(const NcclPci& gpu) { return (gpu.bus_id.starts_with("GPU") ? "" : "GPU ") + gpu.bus_id; }

std::string bus_key(std::string_view bus_id) {
  std::string digits;
  for (const char c : bus_id) {
    if (c == ':' || c == '.') continue;
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!digits.empty() || lower != '0') digits += lower;
  }
  return digits;
}

NcclDump parse_nccl_dump(std::string_view text, const std::string& source) {
  return NcclReader(text, source).read();
}

}  // namespace pipesim

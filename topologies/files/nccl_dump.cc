#include "topologies/files/nccl_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "sim/base/errors.h"

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
    return dump;
  }

 private:
  static constexpr std::int64_t kNumberMissing = -1;

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

  [[nodiscard]] NcclCpu cpu(const pugi::xml_node& node) const {
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

  [[nodiscard]] NcclPci pci(const pugi::xml_node& node, int depth = 1) const {
    constexpr std::int64_t most_lanes = 64;
    constexpr int most_bridges = 64;
    if (depth > most_bridges)
      fail(node, fmt::format("<pci> stands in {} others, allowed: up to {}", depth - 1, most_bridges - 1));
    NcclPci result;
    result.line = line_of(node);
    result.bus_id = node.attribute("busid").value();
    if (result.bus_id.empty()) fail(node, "<pci> has no busid");
    result.link_speed = node.attribute("link_speed").value();
    result.link_width = std::max<std::int64_t>(number(node, "link_width", most_lanes).value_or(0), 0);
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "pci") result.below.push_back(pci(child, depth + 1));
      if (name == "nic") add_nets(child, result.nets);
      if (name == "gpu") result.gpu = gpu(child);
    }
    // Display controllers. Files that are given to NCCL instead of dumped by it name nothing else of a GPU.
    if (std::string_view(node.attribute("class").value()).starts_with("0x03") && !result.gpu)
      result.gpu = NcclGpu();
    constexpr std::int64_t nvidia = 0x10de, most_id = 0xffff;
    if (result.gpu && number(node, "vendor", most_id) == nvidia)
      result.gpu->device_id = number(node, "device", most_id);
    return result;
  }

  [[nodiscard]] NcclGpu gpu(const pugi::xml_node& node) const {
    constexpr std::int64_t most_gpus = 100'000, most_capability = 999, most_links = 1'000;
    NcclGpu result;
    result.number = number(node, "dev", most_gpus);
    result.compute_capability = number(node, "sm", most_capability);
    for (const pugi::xml_node& child : node.children("nvlink")) {
      NcclNvlink link;
      link.line = line_of(child);
      link.count = count(child, "count", most_links);
      link.bus_id = child.attribute("target").value();
      const std::string_view target_class = child.attribute("tclass").value();
      if (target_class.starts_with("0x068000")) link.to = NcclNvlink::To::Switch;
      if (target_class.starts_with("0x068001")) link.to = NcclNvlink::To::Cpu;
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

  void add_nets(const pugi::xml_node& nic, std::vector<NcclNet>& nets) const {
    constexpr std::int64_t most_nets = 100'000, least_speed = 10, most_speed = 100'000'000;
    for (const pugi::xml_node& node : nic.children("net")) {
      // NCCL's own reader skips those without a number, which a file names to be found or not.
      if (number(node, "dev", most_nets).value_or(kNumberMissing) < 0) continue;
      NcclNet net;
      net.name = node.attribute("name").value();
      net.speed = count(node, "speed", most_speed, least_speed);
      net.latency = latency(node);
      nets.push_back(std::move(net));
    }
  }

  std::string_view text_;
  const std::string& source_;
  std::vector<std::size_t> line_ends_;
};

}  // namespace

NcclDump parse_nccl_dump(std::string_view text, const std::string& source) {
  return NcclReader(text, source).read();
}

}  // namespace pipesim

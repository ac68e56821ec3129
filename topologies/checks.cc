#include "topologies/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "sim/base/errors.h"

namespace pipesim {

namespace {

template <class Number>
std::string fault_outside(Number found, Number lowest, Number highest) {
  if (found >= lowest && found <= highest) return "";  // false for NaN
  return fmt::format("found {}, allowed {} to {}", pretty(found), pretty(lowest), pretty(highest));
}

class PartsCheck {
 public:
  explicit PartsCheck(const TopologyParts& parts) : parts_(parts) {}

  void run() {
    check_counts();
    check_kinds();
    check_names();
    check_devices();
    check_links();
    check_reach();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("topology \"{}\": {}", parts_.name, what));
  }

  void require(const std::string& where, const std::string& fault) const {
    if (!fault.empty()) fail(fmt::format("{}: {}", where, fault));
  }

  void check_counts() const {
    const auto at_most = [&](std::size_t found, std::int64_t allowed, std::string_view what) {
      if (static_cast<std::int64_t>(found) > allowed)
        fail(fmt::format("found {} {}, at most {} are allowed", found, what, allowed));
    };
    if (parts_.devices.empty()) fail("it has no devices, at least one is needed");
    at_most(parts_.devices.size(), max_devices, "devices");
    at_most(parts_.vertices.size(), max_devices + max_junctions, "vertices");
    at_most(parts_.links.size(), max_links, "links");
    if (parts_.vertices.size() < parts_.devices.size()) fail("each device needs a vertex, in the same order");
  }

  void check_kinds() const {
    std::unordered_set<std::string> names;
    for (const DeviceKind& kind : parts_.kinds) {
      const std::string where = fmt::format("device kind \"{}\"", kind.name);
      require("the name of a device kind", fault_of_name(kind.name));
      if (!names.insert(kind.name).second) fail(where + " is there twice");
      if (kind.peak.empty()) fail(where + " has no peak rate");
      for (const auto& [type, rate] : kind.peak)
        require(fmt::format("{}, peak of {}", where, name_of(type)), fault_of_peak(rate));
      require(where + ", efficiency", fault_of_efficiency(kind.products.efficiency));
      require(where + ", memory", fault_of_memory(kind.memory));
      require(where + ", memory bandwidth", fault_of_memory_bandwidth(kind.memory_bandwidth));
      require(where + ", memory efficiency", fault_of_fraction(kind.memory_efficiency));
      require(where + ", sustained rate", fault_of_fraction(kind.products.sustained));
      for (const auto& [type, rate] : kind.product_rates) {
        const std::string of = fmt::format("{}, products in {}", where, name_of(type));
        if (!kind.peak.contains(type)) fail(of + " have no peak rate");
        require(of + ", efficiency", fault_of_efficiency(rate.efficiency));
        require(of + ", sustained rate", fault_of_fraction(rate.sustained));
      }
      require(where + ", memory overhead", fault_of_overhead(kind.memory_overhead));
      require(where + ", launch overhead", fault_of_latency(kind.launch_overhead));
      if (kind.collectives)
        require(where + ", call of collectives", fault_of_latency(kind.collectives->call));
    }
    require("the price per hour", fault_of_price(parts_.price_per_hour));
  }

  void check_names() const {
    std::unordered_set<std::string_view> seen;
    const auto note = [&](std::string_view what, std::string_view plural, const std::string& name) {
      require(fmt::format("the name of a {}", what), fault_of_name(name));
      if (!seen.insert(name).second) fail(fmt::format("two {} are called \"{}\"", plural, name));
    };
    for (const std::string& node : parts_.nodes) note("node", "nodes", node);
    seen.clear();
    for (const Vertex& vertex : parts_.vertices) note("vertex", "vertices", vertex.name);
  }

  void check_devices() const {
    for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
      const Vertex& vertex = parts_.vertices[i];
      const bool is_device = i < parts_.devices.size();
      if (is_device != (vertex.kind == VertexKind::Device)) fail("vertices must list the devices first");
      if (vertex.node >= static_cast<std::int32_t>(parts_.nodes.size()) || vertex.node < (is_device ? 0 : -1))
        fail(
            fmt::format("\"{}\" is in node {}, there are {}", vertex.name, vertex.node, parts_.nodes.size()));
      if (is_device) check_device(parts_.devices[i], vertex);
    }
  }

  void check_device(const Device& device, const Vertex& vertex) const {
    if (device.name != vertex.name || device.node != vertex.node)
      fail(fmt::format("device \"{}\" and its vertex \"{}\" differ", device.name, vertex.name));
    if (device.kind < 0 || device.kind >= static_cast<std::int32_t>(parts_.kinds.size()))
      fail(fmt::format("\"{}\" is of kind {}, there are {}", device.name, device.kind, parts_.kinds.size()));
  }

  void check_links() {
    const auto count = static_cast<std::int32_t>(parts_.vertices.size());
    for (std::size_t i = 0; i < parts_.links.size(); ++i) {
      const Link& link = parts_.links[i];
      if (link.a < 0 || link.a >= count || link.b < 0 || link.b >= count)
        fail(fmt::format("link {} joins vertices {} and {}, there are {}", i, link.a, link.b, count));
      const std::string where = fmt::format("link {} ({} to {})", i, name(link.a), name(link.b));
      if (link.a == link.b) fail(where + " joins a vertex to itself");
      require(where + ", bandwidth", fault_of_link_bandwidth(link.bandwidth));
      require(where + ", latency", fault_of_latency(link.latency));
      check_bus(link, where);
    }
  }

  void check_bus(const Link& link, const std::string& where) {
    const auto is_bus = [&](std::int32_t v) {
      return parts_.vertices[static_cast<std::size_t>(v)].kind == VertexKind::Bus;
    };
    if (!is_bus(link.a) && !is_bus(link.b)) return;
    if (is_bus(link.a) && is_bus(link.b)) fail(where + " joins two buses");
    if (link.duplex) fail(where + ": found a duplex link of a bus, allowed: one lane for all, both ways");
    const BytesPerSecond first =
        bandwidth_of_bus_.try_emplace(is_bus(link.a) ? link.a : link.b, link.bandwidth).first->second;
    if (link.bandwidth != first)
      fail(fmt::format("{}: found {}, allowed: what other links of the bus have, {}", where,
                       pretty(link.bandwidth), pretty(first)));
  }

  void check_reach() const {
    std::vector<std::int32_t> leader(parts_.vertices.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](std::int32_t v) {
      while (leader[static_cast<std::size_t>(v)] != v) {
        std::int32_t& up = leader[static_cast<std::size_t>(v)];
        up = leader[static_cast<std::size_t>(up)];
        v = up;
      }
      return v;
    };
    for (const Link& link : parts_.links) leader[static_cast<std::size_t>(find(link.a))] = find(link.b);
    for (std::int32_t v = 1; v < static_cast<std::int32_t>(leader.size()); ++v) {
      if (find(v) != find(0))
        fail(fmt::format("\"{}\" can't reach \"{}\": no chain of links joins them", name(0), name(v)));
    }
  }

  [[nodiscard]] const std::string& name(std::int32_t vertex) const {
    return parts_.vertices[static_cast<std::size_t>(vertex)].name;
  }

  const TopologyParts& parts_;
  std::unordered_map<std::int32_t, BytesPerSecond> bandwidth_of_bus_;
};

}  // namespace

std::string fault_of_link_bandwidth(BytesPerSecond bandwidth) {
  return fault_outside(bandwidth, BytesPerSecond(1e6), BytesPerSecond(9e14));
}
std::string fault_of_price(double per_hour) {
  constexpr double kMost = 1e6;
  if (per_hour >= 0 && per_hour <= kMost) return "";
  return fmt::format("found {}, allowed 0 to {:.0f}", per_hour, kMost);
}
std::string fault_of_latency(Seconds latency) { return fault_outside(latency, Seconds(0), Seconds(10)); }
std::string fault_of_memory(Bytes memory) {
  return fault_outside(memory, Bytes(1'000'000), Bytes(900'000'000'000'000));
}
std::string fault_of_memory_bandwidth(BytesPerSecond bandwidth) {
  return fault_outside(bandwidth, BytesPerSecond(1e6), BytesPerSecond(9e14));
}
std::string fault_of_peak(FlopsPerSecond peak) {
  return fault_outside(peak, FlopsPerSecond(1e6), FlopsPerSecond(9e17));
}

std::string fault_of_name(std::string_view name) {
  if (name.empty()) return "found an empty name";
  if (name.size() > 200) return fmt::format("found a name of {} bytes, allowed up to 200", name.size());
  if (name.find('*') != std::string_view::npos)
    return fmt::format("found \"{}\", a name can't have '*'", name);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) return "found a name with control characters";
  return "";
}

std::string fault_of_overhead(const MemoryOverhead& overhead) {
  for (const Bytes part : {overhead.installed, overhead.context, overhead.communicator}) {
    if (std::string fault = fault_outside(part, Bytes(0), Bytes(900'000'000'000'000)); !fault.empty())
      return fault;
  }
  if (!(overhead.fragmentation >= 0 && overhead.fragmentation <= 1))
    return fmt::format("found a fragmentation of {}, allowed 0 to 1", overhead.fragmentation);
  if (overhead.is_none() || overhead.usable(overhead.installed, 1).value > 0) return "";
  return fmt::format("found {} installed, of which context and one communicator take {}, and nothing is left",
                     pretty(overhead.installed), pretty(overhead.context + overhead.communicator));
}

std::string fault_of_fraction(double fraction) {
  if (fraction > 0 && fraction <= 1) return "";
  return fmt::format("found {}, allowed above 0 up to 1", fraction);
}

std::string fault_of_efficiency(const std::vector<EfficiencyPoint>& curve) {
  if (curve.empty()) return "found no points, at least one is needed";
  Flops previous;
  for (const EfficiencyPoint& point : curve) {
    if (!(point.flops > previous) || point.flops.value > 1e30)
      return fmt::format("found {} operations after {}, allowed rising numbers up to 1e30", point.flops.value,
                         previous.value);
    if (std::string fault = fault_of_fraction(point.fraction); !fault.empty()) return fault;
    previous = point.flops;
  }
  return "";
}

void check_parts(const TopologyParts& parts) { PartsCheck(parts).run(); }

}  // namespace pipesim

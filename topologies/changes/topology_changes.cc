#include "topologies/changes/topology_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <optional>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/changes/link_places.h"
#include "topologies/device_kinds.h"

namespace pipesim {
namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e12)
    return std::nullopt;
  return value;
}

// "x2": 2.
std::optional<double> factor_of(std::string_view value) {
  return value.starts_with('x') ? number_of(value.substr(1)) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view path, std::string_view value, const std::string& allowed) {
  throw InputError(fmt::format("{}={}: found \"{}\", allowed: {}", path, value, value, allowed));
}

double required_factor(std::string_view path, std::string_view value) {
  const std::optional<double> factor = factor_of(value);
  if (!factor) refuse(path, value, "a factor, such as x1.5");
  return *factor;
}

// A new value by its text, or the present one times a factor.
template <class Unit>
Unit new_value(std::string_view path, std::string_view value, Unit now,
               const std::function<Unit(std::string_view)>& parse) {
  using Rep = decltype(now.value);
  if (const auto factor = factor_of(value))
    return Unit(static_cast<Rep>(static_cast<double>(now.value) * *factor));
  try {
    return parse(value);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}={}: {}, or a factor, such as x1.5", path, value, error.what()));
  }
}

// What `value` makes of a figure, as a factor of what it is now.
template <class Unit>
double change_of(std::string_view path, std::string_view value, Unit now,
                 const std::function<Unit(std::string_view)>& parse) {
  if (const auto factor = factor_of(value)) return *factor;
  return static_cast<double>(new_value(path, value, now, parse).value) / static_cast<double>(now.value);
}

std::string lowered(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "H100-SXM5", or the first kind whose name begins so, in any case.
const DeviceKind& kind_named(std::string_view path, std::string_view value) {
  for (const DeviceKind& kind : built_in_device_kinds()) {
    if (kind.name == value) return kind;
  }
  // Where a chip has several memories, the larger one is meant.
  const DeviceKind* found = nullptr;
  for (const DeviceKind& kind : built_in_device_kinds()) {
    if (!lowered(kind.name).starts_with(lowered(value))) continue;
    if (!found || kind.memory > found->memory) found = &kind;
  }
  if (found && !value.empty()) return *found;
  refuse(path, value, list_names(built_in_device_kind_names()));
}

void change_kinds(TopologyParts& parts, const std::function<void(DeviceKind&)>& change) {
  for (DeviceKind& kind : parts.kinds) change(kind);
}

void change_device(TopologyParts& parts, std::string_view path, std::string_view value) {
  if (path == "device") {
    parts.kinds = {kind_named(path, value)};
    for (Device& device : parts.devices) device.kind = 0;
  } else if (path == "device.rate") {
    const double factor = required_factor(path, value);
    change_kinds(parts, [&](DeviceKind& kind) {
      for (auto& [type, rate] : kind.peak) rate = rate * factor;
    });
  } else if (path == "device.memory") {
    change_kinds(parts, [&](DeviceKind& kind) {
      const Bytes memory = new_value<Bytes>(path, value, kind.memory, parse_bytes);
      const double factor = memory / kind.memory;
      Bytes& installed = kind.memory_overhead.installed;
      installed = Bytes(static_cast<std::int64_t>(static_cast<double>(installed.value) * factor));
      kind.memory = memory;
    });
  } else if (path == "device.memory_bandwidth") {
    change_kinds(parts, [&](DeviceKind& kind) {
      kind.memory_bandwidth = new_value<BytesPerSecond>(path, value, kind.memory_bandwidth, parse_bandwidth);
    });
  } else if (path == "device.launch_overhead") {
    change_kinds(parts, [&](DeviceKind& kind) {
      kind.launch_overhead = new_value<Seconds>(path, value, kind.launch_overhead, parse_duration);
    });
  } else {
    const std::optional<double> factor = factor_of(value), price = number_of(value);
    if (!factor && !price) refuse(path, value, "a price of an hour above 0, or a factor, such as x1.5");
    parts.price_per_hour = factor ? parts.price_per_hour * *factor : *price;
  }
}

void scale_latency(Link& link, double factor) { link.latency = link.latency * factor; }

// NICs' links inside nodes, which must not become narrower than the network behind them.
void widen_ways_to_nics(TopologyParts& parts, const LinkPlaces& before) {
  const LinkPlaces now(parts);
  for (std::size_t l = 0; l < parts.links.size(); ++l) {
    if (before.place(l) != LinkPlace::ToNic) continue;
    const BytesPerSecond was = before.behind_nic(l), is = now.behind_nic(l);
    Link& link = parts.links[l];
    if (link.bandwidth >= was && link.bandwidth < is) link.bandwidth = is;
  }
}

void change_links(TopologyParts& parts, std::string_view path, std::string_view value, LinkPlace place) {
  const LinkPlaces places(parts);
  const bool between = place == LinkPlace::BetweenNodes;
  if (places.of(place).empty())
    throw InputError(fmt::format("{}={}: topology \"{}\" has no links {}", path, value, parts.name,
                                 between ? "between nodes" : "inside nodes"));
  if (path.ends_with(".nics")) {
    const std::int64_t now = places.nics_of_node();
    if (now == 0)
      throw InputError(fmt::format("{}={}: topology \"{}\" has no NICs", path, value, parts.name));
    const std::optional<double> factor = factor_of(value), number = number_of(value);
    if (!factor && !number) refuse(path, value, "a number of NICs above 0, or a factor, such as x2");
    const double times = factor ? *factor : *number / static_cast<double>(now);
    for (const std::size_t l : places.of(place)) parts.links[l].bandwidth = parts.links[l].bandwidth * times;
    for (const std::size_t l : places.of(LinkPlace::ToNic))
      parts.links[l].bandwidth = parts.links[l].bandwidth * times;
  } else if (path.ends_with(".bandwidth")) {
    const BytesPerSecond now = between ? places.narrowest(place) : places.widest(place);
    const double factor = change_of<BytesPerSecond>(path, value, now, parse_bandwidth);
    for (const std::size_t l : places.of(place)) parts.links[l].bandwidth = parts.links[l].bandwidth * factor;
    if (between) widen_ways_to_nics(parts, places);
  } else {
    const Seconds now = places.longest_latency(place);
    if (now.value == 0 && !factor_of(value)) {
      for (const std::size_t l : places.of(place))
        parts.links[l].latency = new_value<Seconds>(path, value, now, parse_duration);
      return;
    }
    const double factor = change_of<Seconds>(path, value, now, parse_duration);
    for (const std::size_t l : places.of(place)) scale_latency(parts.links[l], factor);
  }
}

// A vertex, or the link between two.
struct Named {
  std::optional<std::size_t> vertex, link;
};

Named find_named(const TopologyParts& parts, std::string_view path, std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < parts.vertices.size(); ++v) {
    if (parts.vertices[v].name == name) return {v, std::nullopt};
    names.push_back(parts.vertices[v].name);
  }
  for (std::size_t l = 0; l < parts.links.size(); ++l) {
    const std::string& a = parts.vertices[static_cast<std::size_t>(parts.links[l].a)].name;
    const std::string& b = parts.vertices[static_cast<std::size_t>(parts.links[l].b)].name;
    if (name == a + "-" + b || name == b + "-" + a) return {std::nullopt, l};
  }
  // With a single node, either name finds the device.
  if (const std::string_view first = "node0."; parts.nodes.size() == 1 && name.starts_with(first))
    return find_named(parts, path, name.substr(first.size()));
  throw InputError(
      fmt::format("{}: topology \"{}\" has no \"{}\"{}; allowed: {}, or A-B for the link between two", path,
                  parts.name, name, did_you_mean(name, names), list_names(names)));
}

bool ends_at(const Link& link, std::size_t vertex) {
  return static_cast<std::size_t>(link.a) == vertex || static_cast<std::size_t>(link.b) == vertex;
}

void slow_down(TopologyParts& parts, std::string_view path, std::string_view value, const Named& named) {
  const std::optional<double> factor = value.starts_with('x') ? factor_of(value) : number_of(value);
  if (!factor || *factor < 1) refuse(path, value, "how many times as slow, a number from 1 on");
  if (*factor == 1) return;
  if (named.vertex && *named.vertex < parts.devices.size()) {
    Device& device = parts.devices[*named.vertex];
    DeviceKind slow = parts.kinds[static_cast<std::size_t>(device.kind)];
    slow.name += fmt::format(" {} times as slow ({})", *factor, device.name);
    for (auto& [type, rate] : slow.peak) rate = rate * (1 / *factor);
    slow.memory_bandwidth = slow.memory_bandwidth * (1 / *factor);
    slow.launch_overhead = slow.launch_overhead * *factor;
    device.kind = static_cast<std::int32_t>(parts.kinds.size());
    parts.kinds.push_back(std::move(slow));
    return;
  }
  for (std::size_t l = 0; l < parts.links.size(); ++l) {
    Link& link = parts.links[l];
    if (named.link ? *named.link == l : ends_at(link, *named.vertex))
      link.bandwidth = link.bandwidth * (1 / *factor);
  }
}

// Nodes without devices stay, as their switches may carry what others send.
void remove(TopologyParts& parts, std::string_view path, std::string_view value, const Named& named) {
  if (value == "no") return;
  if (value != "yes") refuse(path, value, "yes, no");
  if (named.link) {
    parts.links.erase(parts.links.begin() + static_cast<std::ptrdiff_t>(*named.link));
    return;
  }
  const std::size_t gone = *named.vertex;
  if (gone < parts.devices.size())
    parts.devices.erase(parts.devices.begin() + static_cast<std::ptrdiff_t>(gone));
  parts.vertices.erase(parts.vertices.begin() + static_cast<std::ptrdiff_t>(gone));
  std::erase_if(parts.links, [&](const Link& link) { return ends_at(link, gone); });
  for (Link& link : parts.links) {
    if (static_cast<std::size_t>(link.a) > gone) --link.a;
    if (static_cast<std::size_t>(link.b) > gone) --link.b;
  }
}

constexpr std::string_view kSlow = "slow:", kRemove = "remove:";

std::string kinds_text(const TopologyParts& parts) {
  std::set<std::string> names;
  for (const Device& device : parts.devices)
    names.insert(parts.kinds[static_cast<std::size_t>(device.kind)].name);
  return list_names(std::vector<std::string>(names.begin(), names.end()));
}

// The same of all kinds, or "".
std::string of_all(const TopologyParts& parts, const std::function<std::string(const DeviceKind&)>& text) {
  std::string first = text(parts.kinds.front());
  const bool same =
      std::ranges::all_of(parts.kinds, [&](const DeviceKind& kind) { return text(kind) == first; });
  return same ? first : "";
}

}  // namespace

std::vector<ChangeableFigure> changeable_figures(const TopologyParts& parts) {
  const LinkPlaces places(parts);
  std::vector<ChangeableFigure> figures{
      {"device", kinds_text(parts), list_names(built_in_device_kind_names())},
      {"device.rate",
       of_all(parts,
              [](const DeviceKind& k) {
                return pretty(
                    std::ranges::max_element(k.peak, {}, [](const auto& p) { return p.second; })->second);
              }),
       "x2"},
      {"device.memory", of_all(parts, [](const DeviceKind& k) { return pretty(k.memory); }), "40GB, or x2"},
      {"device.memory_bandwidth",
       of_all(parts, [](const DeviceKind& k) { return pretty(k.memory_bandwidth); }), "2TB/s, or x2"},
      {"device.launch_overhead", of_all(parts, [](const DeviceKind& k) { return pretty(k.launch_overhead); }),
       "2us, or x2"},
      {"device.price", parts.price_per_hour > 0 ? fmt::format("{}", parts.price_per_hour) : "",
       "of a device an hour: 2.5, or x2"}};
  for (const LinkPlace place : {LinkPlace::InsideNode, LinkPlace::BetweenNodes}) {
    if (places.of(place).empty()) continue;
    const bool between = place == LinkPlace::BetweenNodes;
    const std::string where = between ? "inter_node" : "intra_node";
    figures.push_back({where + ".bandwidth", pretty(between ? places.narrowest(place) : places.widest(place)),
                       "25Gb/s, or x2"});
    figures.push_back({where + ".latency", pretty(places.longest_latency(place)), "5us, or x2"});
    if (between && places.nics_of_node() > 0)
      figures.push_back({where + ".nics", fmt::format("{}", places.nics_of_node()), "of a node: 4, or x2"});
  }
  figures.push_back({"slow:NAME", "1", "times as slow: 1.5; a device, a switch, a NIC, or A-B for a link"});
  figures.push_back({"remove:NAME", "no", "yes, no; a device, a switch, a NIC, or A-B for a link"});
  return figures;
}

void change_topology(TopologyParts& parts, std::string_view path, std::string_view value) {
  if (path.starts_with(kSlow))
    return slow_down(parts, path, value, find_named(parts, path, path.substr(kSlow.size())));
  if (path.starts_with(kRemove))
    return remove(parts, path, value, find_named(parts, path, path.substr(kRemove.size())));
  std::vector<std::string> names;
  for (const ChangeableFigure& figure : changeable_figures(parts)) {
    const bool open = figure.path.find(':') != std::string::npos;
    if (!open && figure.path == path) {
      if (path.starts_with("inter_node.")) return change_links(parts, path, value, LinkPlace::BetweenNodes);
      if (path.starts_with("intra_node.")) return change_links(parts, path, value, LinkPlace::InsideNode);
      return change_device(parts, path, value);
    }
    names.push_back(figure.path);
  }
  throw InputError(fmt::format("{}={}: topology \"{}\" has no \"{}\"{}; allowed: {}", path, value, parts.name,
                               path, did_you_mean(path, names), list_names(names)));
}

Topology changed_topology(const Topology& topology, std::string_view changes, std::string_view name) {
  TopologyParts parts = topology.parts();
  for (std::size_t from = 0, end = 0; end != std::string_view::npos; from = end + 1) {
    end = changes.find('+', from);
    const std::string_view change = changes.substr(from, end == std::string_view::npos ? end : end - from);
    const std::size_t equals = change.find('=');
    change_topology(parts, change.substr(0, equals), change.substr(equals + 1));
  }
  parts.name = name;
  return Topology(std::move(parts)).with_memory_margin(topology.memory_margin());
}

}  // namespace pipesim

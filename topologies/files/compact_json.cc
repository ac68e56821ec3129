#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/json_text.h"
#include "topologies/device_kinds.h"
#include "topologies/files/device_kind_json.h"
#include "topologies/files/link_entries.h"
#include "topologies/files/topology_json.h"
#include "topologies/levels.h"

namespace pipesim {

namespace {

using Json = nlohmann::ordered_json;

std::string compact_text(const Json& json) {
  return spaced_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// On one line where it fits; else a member or element a line, and lists of words as many as fit.
std::string laid_out(const Json& json, std::size_t indent, std::size_t before) {
  constexpr std::size_t kWidth = 118;
  const std::string line = compact_text(json);
  if (!json.is_structured() || indent + before + line.size() <= kWidth) return line;
  const bool object = json.is_object();
  const bool words = !object && std::ranges::none_of(json, [](const Json& j) { return j.is_structured(); });
  const std::string inner(indent + 2, ' ');
  std::string text(1, object ? '{' : '[');
  std::size_t used = kWidth;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (it != json.begin()) text += ",";
    const std::string key = object ? Json(it.key()).dump() + ": " : "";
    const std::string item = key + laid_out(*it, indent + 2, key.size());
    if (words && used + item.size() + 2 <= kWidth) {
      text += " " + item;
      used += item.size() + 2;
    } else {
      text += "\n" + inner + item;
      used = inner.size() + item.size() + 1;
    }
  }
  return text + "\n" + std::string(indent, ' ') + (object ? "}" : "]");
}

// The outermost members always have lines of their own.
std::string file_text(const Json& json) {
  std::string text = "{";
  for (auto it = json.begin(); it != json.end(); ++it) {
    const std::string key = Json(it.key()).dump() + ": ";
    text += fmt::format("{}\n  {}{}", it == json.begin() ? "" : ",", key, laid_out(*it, 2, key.size() + 1));
  }
  return text + "\n}\n";
}

// Leaves out what a reader assumes.
Json short_kind(const DeviceKind& kind) {
  Json json, peak = Json::object();
  for (const auto& [type, rate] : kind.peak) peak[std::string(name_of(type))] = to_text(rate);
  json["peak"] = std::move(peak);
  if (kind.products.efficiency != std::vector<EfficiencyPoint>{{Flops(1), 1}})
    json["efficiency"] = efficiency_json(kind.products.efficiency);
  json["memory"] = to_text(kind.memory);
  json["memory_bandwidth"] = to_text(kind.memory_bandwidth);
  if (kind.memory_efficiency != 1) json["memory_efficiency"] = kind.memory_efficiency;
  if (kind.launch_overhead != Seconds(0)) json["launch_overhead"] = to_text(kind.launch_overhead);
  if (!kind.memory_overhead.is_none()) json["memory_overhead"] = overhead_json(kind.memory_overhead);
  if (kind.collectives) json["collectives"] = collectives_json(*kind.collectives);
  if (!kind.overlap) json["overlap"] = false;
  if (!kind.shape_losses) json["shape_losses"] = false;
  if (kind.products.sustained != 1) json["sustained"] = kind.products.sustained;
  if (!kind.product_rates.empty()) json["product_rates"] = product_rates_json(kind.product_rates);
  if (kind.fused_attention) json["fused_attention"] = fused_attention_json(*kind.fused_attention);
  if (kind.flash_attention_2) json["flash_attention_2"] = fused_attention_json(*kind.flash_attention_2);
  if (!kind.source.empty()) json["source"] = kind.source;
  return json;
}

bool is_built_in(const DeviceKind& kind) {
  const DeviceKind* known = find_built_in_device_kind(kind.name);
  return known && *known == kind;
}

Json cable_json(const Link& link) {
  Json json{{"bandwidth", to_text(link.bandwidth)}, {"latency", to_text(link.latency)}};
  if (!link.duplex) json["duplex"] = false;
  return json;
}

Json link_entries_json(const std::vector<LinkEntry>& entries) {
  Json list = Json::array();
  for (const LinkEntry& entry : entries) {
    if (entry.count > 0) {
      list.push_back({{"count", entry.count}, {"links", link_entries_json(entry.links)}});
      continue;
    }
    Json json{{"between", Json::array({entry.a, entry.b})}};
    json.update(cable_json(entry.cable));
    list.push_back(std::move(json));
  }
  return list;
}

// The parts of a topology in the order of its nodes, or not at all.
class NodesForm {
 public:
  explicit NodesForm(const TopologyParts& parts) : parts_(parts), nodes_(parts.nodes.size()) {}

  [[nodiscard]] std::optional<std::string> text() {
    if (!find_vertices()) return std::nullopt;
    find_links();
    Json file{{"pipesim_topology", 1}, {"name", parts_.name}};
    if (!parts_.source.empty()) file["source"] = parts_.source;
    if (parts_.price_per_hour > 0) file["price_per_hour"] = parts_.price_per_hour;
    add_device_kinds(file);
    if (!core_.empty()) file["core_switches"] = names_of(core_);
    add_nodes(file);
    add_the_rest(file);
    return file_text(file);
  }

 private:
  struct Node {
    std::vector<std::int32_t> devices, junctions;
    std::span<const Link> links;
    std::string prefix;
  };

  [[nodiscard]] const Vertex& vertex(std::int32_t v) const {
    return parts_.vertices[static_cast<std::size_t>(v)];
  }

  [[nodiscard]] Json names_of(const std::vector<std::int32_t>& vertices) const {
    Json list = Json::array();
    for (const std::int32_t v : vertices) list.push_back(vertex(v).name);
    return list;
  }

  bool find_vertices() {
    std::int32_t last_of_devices = 0, last_of_junctions = -1;
    for (std::size_t d = 0; d < parts_.devices.size(); ++d) {
      const std::int32_t node = parts_.devices[d].node;
      if (node < last_of_devices) return false;
      last_of_devices = node;
      nodes_[static_cast<std::size_t>(node)].devices.push_back(static_cast<std::int32_t>(d));
    }
    for (std::size_t i = parts_.devices.size(); i < parts_.vertices.size(); ++i) {
      const auto v = static_cast<std::int32_t>(i);
      const std::int32_t node = vertex(v).node;
      if (node < 0) {
        const bool leading = last_of_junctions < 0 && after_.empty() && vertex(v).kind == VertexKind::Switch;
        (leading ? core_ : after_).push_back(v);
        continue;
      }
      if (node < last_of_junctions || !after_.empty()) return false;
      last_of_junctions = node;
      nodes_[static_cast<std::size_t>(node)].junctions.push_back(v);
    }
    if (last_of_junctions < 0) std::swap(core_, after_);  // no node has any
    for (std::size_t n = 0; n < nodes_.size(); ++n) find_prefix(n);
    return true;
  }

  void find_prefix(std::size_t n) {
    Node& node = nodes_[n];
    node.prefix = parts_.nodes[n] + ".";
    for (const auto* list : {&node.devices, &node.junctions}) {
      for (const std::int32_t v : *list) {
        if (!vertex(v).name.starts_with(node.prefix) || vertex(v).name.size() == node.prefix.size())
          return node.prefix.clear();
      }
    }
  }

  void find_links() {
    rest_ = parts_.links;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      std::size_t count = 0;
      while (count < rest_.size() && is_of_node(rest_[count], static_cast<std::int32_t>(n))) ++count;
      nodes_[n].links = rest_.first(count);
      rest_ = rest_.subspan(count);
    }
  }

  [[nodiscard]] bool is_of_node(const Link& link, std::int32_t node) const {
    const std::int32_t a = vertex(link.a).node, b = vertex(link.b).node;
    const auto is_core = [&](std::int32_t v) { return std::ranges::find(core_, v) != core_.end(); };
    return (a == node || is_core(link.a)) && (b == node || is_core(link.b)) && (a == node || b == node);
  }

  void add_device_kinds(Json& file) const {
    std::vector<std::int32_t> used;
    for (const Device& d : parts_.devices) {
      if (std::ranges::find(used, d.kind) == used.end()) used.push_back(d.kind);
    }
    const bool known = std::ranges::all_of(parts_.kinds, is_built_in) && std::ranges::is_sorted(used) &&
                       used.size() == parts_.kinds.size();
    if (known) return;
    for (const DeviceKind& kind : parts_.kinds)
      file["device_kinds"][kind.name] = is_built_in(kind) ? Json(kind.name) : short_kind(kind);
  }

  [[nodiscard]] std::string local_name(const Node& node, std::int32_t v) const {
    return vertex(v).name.substr(node.prefix.size());
  }

  // Runs of devices of a kind whose names differ in the number at their end.
  [[nodiscard]] Json devices_json(const Node& node) const {
    Json groups = Json::array();
    for (std::size_t i = 0; i < node.devices.size();) {
      const Device& first = parts_.devices[static_cast<std::size_t>(node.devices[i])];
      std::string name = local_name(node, node.devices[i]);
      std::size_t end = i + 1;
      if (name.ends_with('0')) {
        const std::string base = name.substr(0, name.size() - 1);
        while (end < node.devices.size() &&
               parts_.devices[static_cast<std::size_t>(node.devices[end])].kind == first.kind &&
               local_name(node, node.devices[end]) == fmt::format("{}{}", base, end - i))
          ++end;
        if (!base.empty()) name = base;
      }
      Json group = Json::object();
      const bool counted = name != local_name(node, node.devices[i]);
      if (counted) group["count"] = end - i;
      if (name != "gpu") group["name"] = name;
      group["kind"] = parts_.kinds[static_cast<std::size_t>(first.kind)].name;
      groups.push_back(std::move(group));
      i = counted ? end : i + 1;
    }
    return groups.size() == 1 ? groups.front() : groups;
  }

  [[nodiscard]] Json vertices_json(const std::vector<std::int32_t>& list, std::size_t prefix) const {
    Json result = Json::array();
    for (const std::int32_t v : list) {
      const VertexKind kind = vertex(v).kind;
      result.push_back({{"name", vertex(v).name.substr(prefix)},
                        {"kind", kind == VertexKind::Nic   ? "nic"
                                 : kind == VertexKind::Bus ? "bus"
                                                           : "switch"}});
    }
    return result;
  }

  void add_junctions(Json& body, const Node& node) const {
    const auto first_nic =
        std::ranges::find(node.junctions, VertexKind::Nic, [&](std::int32_t v) { return vertex(v).kind; });
    const auto all_are = [&](auto begin, auto end, VertexKind kind) {
      return std::all_of(begin, end, [&](std::int32_t v) { return vertex(v).kind == kind; });
    };
    if (!all_are(node.junctions.begin(), first_nic, VertexKind::Switch) ||
        !all_are(first_nic, node.junctions.end(), VertexKind::Nic)) {
      body["vertices"] = vertices_json(node.junctions, node.prefix.size());
      return;
    }
    for (const std::int32_t v : node.junctions)
      body[vertex(v).kind == VertexKind::Nic ? "nics" : "switches"].push_back(local_name(node, v));
  }

  [[nodiscard]] Json body_json(const Node& node) const {
    Json body{{"devices", devices_json(node)}};
    add_junctions(body, node);
    std::vector<std::int32_t> order = node.devices;
    order.insert(order.end(), node.junctions.begin(), node.junctions.end());
    std::map<std::int32_t, std::string> name;
    for (const std::int32_t v : order) name[v] = local_name(node, v);
    for (const std::int32_t v : core_) name[v] = vertex(v).name;
    if (!node.links.empty()) body["links"] = link_entries_json(folded_links(node.links, order, name));
    return body;
  }

  void add_nodes(Json& file) {
    std::vector<Json> bodies;
    std::map<std::string, std::int64_t> copies;
    for (const Node& node : nodes_) {
      bodies.push_back(body_json(node));
      if (!node.prefix.empty()) ++copies[bodies.back().dump()];
    }
    std::map<std::string, std::string> kind_of;
    Json groups = Json::array();
    for (std::size_t n = 0; n < nodes_.size();) {
      const std::string body = bodies[n].dump();
      if (nodes_[n].prefix.empty() || copies[body] == 1) {
        Json node{{"name", parts_.nodes[n]}};
        const bool is_usual = nodes_[n].prefix.empty() == (nodes_.size() == 1);  // as readers take it to be
        if (!is_usual) node["prefix"] = nodes_[n].prefix;
        node.update(bodies[n]);
        groups.push_back(std::move(node));
        ++n;
        continue;
      }
      auto [kind, added] = kind_of.try_emplace(body);
      if (added) {
        kind->second = kind_of.size() == 1 ? "node" : fmt::format("node{}", kind_of.size());
        file["node_kinds"][kind->second] = bodies[n];
      }
      const std::size_t end = end_of_group(bodies, n);
      Json group = Json::object();
      if (end > n) group["count"] = end - n;
      group["of"] = kind->second;
      if (end == n || parts_.nodes[n] != fmt::format("node{}", n))
        group["name"] = end > n ? parts_.nodes[n].substr(0, parts_.nodes[n].size() - 1) : parts_.nodes[n];
      groups.push_back(std::move(group));
      n = std::max(end, n + 1);
    }
    file["nodes"] = groups.size() == 1 ? groups.front() : groups;
  }

  // Behind the nodes from `n` on that "count" can make: node0, node1, … of all, or NAME0, NAME1, … of their
  // own; `n` where it can make none.
  [[nodiscard]] std::size_t end_of_group(const std::vector<Json>& bodies, std::size_t n) const {
    const std::string& name = parts_.nodes[n];
    const bool counted_on = name == fmt::format("node{}", n);
    if (!counted_on && (!name.ends_with('0') || name.size() == 1)) return n;
    const std::string base = counted_on ? "node" : name.substr(0, name.size() - 1);
    std::size_t end = n;
    while (end < nodes_.size() && !nodes_[end].prefix.empty() && bodies[end] == bodies[n] &&
           parts_.nodes[end] == fmt::format("{}{}", base, counted_on ? end : end - n))
      ++end;
    return end;
  }

  // Every NIC of a node joined to the one switch behind the nodes, and nothing else.
  [[nodiscard]] bool is_network() const {
    if (after_.size() != 1 || rest_.empty() || vertex(after_[0]).kind != VertexKind::Switch) return false;
    std::size_t next = 0;
    for (const Node& node : nodes_) {
      for (const std::int32_t v : node.junctions) {
        if (vertex(v).kind != VertexKind::Nic) continue;
        if (next == rest_.size() || rest_[next].a != v || rest_[next].b != after_[0] ||
            !same_cable(rest_[next], rest_[0]))
          return false;
        ++next;
      }
    }
    return next == rest_.size();
  }

  void add_the_rest(Json& file) const {
    if (is_network()) {
      Json network = Json::object();
      if (vertex(after_[0]).name != "network") network["name"] = vertex(after_[0]).name;
      network.update(cable_json(rest_[0]));
      file["network"] = std::move(network);
      return;
    }
    if (std::ranges::all_of(after_, [&](std::int32_t v) { return vertex(v).kind == VertexKind::Switch; })) {
      if (!after_.empty()) file["switches"] = names_of(after_);
    } else {
      file["vertices"] = vertices_json(after_, 0);
    }
    if (rest_.empty()) return;
    std::vector<std::int32_t> order = core_;
    for (const Node& node : nodes_) {
      order.insert(order.end(), node.devices.begin(), node.devices.end());
      order.insert(order.end(), node.junctions.begin(), node.junctions.end());
    }
    order.insert(order.end(), after_.begin(), after_.end());
    std::map<std::int32_t, std::string> name;
    for (const std::int32_t v : order) name[v] = vertex(v).name;
    file["links"] = link_entries_json(folded_links(rest_, std::move(order), std::move(name)));
  }

  const TopologyParts& parts_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> core_, after_;  // junctions of no node, before and behind those of nodes
  std::span<const Link> rest_;              // links of no node
};

// Writes levels if the topology is what add_levels makes of them; checked by reading it.
std::optional<std::string> levels_form(const TopologyParts& parts) {
  const std::size_t nodes = parts.nodes.size(), devices = parts.devices.size();
  if (parts.kinds.size() != 1 || parts.links.size() < devices || devices % nodes != 0) return std::nullopt;
  Json levels = Json::array();
  const auto add = [&](std::size_t size, const Link& link) {
    Json level{{"size", size}, {"bandwidth", to_text(link.bandwidth)}};
    if (link.latency != Seconds(0)) level["latency"] = to_text(link.latency);
    if (!link.duplex) level["duplex"] = false;
    levels.push_back(std::move(level));
  };
  add(devices / nodes, parts.links.front());
  std::size_t groups = nodes, link = devices, at = devices + nodes;
  for (std::size_t l = 1; link < parts.links.size(); ++l) {
    std::size_t switches = 0;
    const std::string prefix = fmt::format("level{}.", l);
    while (at < parts.vertices.size() && parts.vertices[at].name.starts_with(prefix)) ++at, ++switches;
    if (switches == 0 || groups % switches != 0) return std::nullopt;
    add(groups / switches, parts.links[link]);
    link += groups;
    groups = switches;
  }
  Json file{{"pipesim_topology", 1}, {"name", parts.name}};
  if (!parts.source.empty()) file["source"] = parts.source;
  if (parts.price_per_hour > 0) file["price_per_hour"] = parts.price_per_hour;
  const DeviceKind& kind = parts.kinds.front();
  if (!is_built_in(kind)) file["device_kinds"][kind.name] = short_kind(kind);
  file["levels"] = std::move(levels);
  if (kind != default_level_kind()) file["device"] = kind.name;
  return file_text(file);
}

bool reads_back(const std::string& text, const TopologyParts& parts) {
  try {
    return parse_topology(text, parts.name).parts() == parts;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

std::string to_compact_json(const Topology& topology) {
  const TopologyParts& parts = topology.parts();
  std::string best = to_json(topology);
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  for (const auto& text : {NodesForm(parts).text(), levels_form(parts)}) {
    if (text && lines(*text) < lines(best) && reads_back(*text, parts)) best = *text;
  }
  return best;
}

}  // namespace pipesim

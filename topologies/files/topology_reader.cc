#include "topologies/files/topology_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "sim/base/file_kind.h"
#include "sim/base/suggest.h"
#include "topologies/checks.h"
#include "topologies/device_kinds.h"
#include "topologies/files/checked_value.h"
#include "topologies/levels.h"

namespace pipesim {

namespace {

constexpr std::int64_t kVersion = 1;

std::string checked_name(const JsonValue& value) {
  const std::string name = value.string();
  return checked(value, name, fault_of_name(name));
}

BytesPerSecond link_bandwidth(const JsonValue& value) {
  return checked(value, value.bandwidth(), fault_of_link_bandwidth(value.bandwidth()));
}

std::vector<std::string> names_of(const auto& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// `pattern` has one '*', which stands for a number.
bool matches(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  return name.size() > before.size() + after.size() && name.starts_with(before) && name.ends_with(after) &&
         all_digits(name.substr(before.size(), name.size() - before.size() - after.size()));
}

void check_room(const JsonValue& place, std::int64_t used, std::int64_t more, std::int64_t most,
                std::string_view what) {
  if (used + more > most)
    place.fail(fmt::format("found more than {} {} in all, at most {} are allowed", most, what, most));
}

const JsonValue& checked_version(const JsonValue& root) {
  require_file_kind(root, kTopologyKey);
  const JsonValue version = root.at("pipesim_topology");
  const std::int64_t found = version.integer(0, 1'000'000);
  if (found != kVersion) version.fail(fmt::format("found version {}, allowed is {}", found, kVersion));
  return root;
}

std::string text_or(const JsonValue& object, std::string_view key, const std::string& otherwise) {
  const std::optional<JsonValue> value = object.find(key);
  return value ? value->string() : otherwise;
}

}  // namespace

Cable read_cable(const JsonValue& value, bool latency_needed) {
  Cable cable;
  cable.bandwidth = link_bandwidth(value.at("bandwidth"));
  if (latency_needed || value.find("latency")) cable.latency = latency(value.at("latency"));
  if (const auto duplex = value.find("duplex")) cable.duplex = duplex->boolean();
  return cable;
}

namespace {

std::int64_t number_of_nodes(const JsonValue& nodes) {
  const auto of_group = [](const JsonValue& group) {
    const auto count = group.is_object() ? group.find("count") : std::nullopt;
    return count ? count->integer(1, max_devices) : 1;
  };
  if (nodes.is_object()) return of_group(nodes);
  std::int64_t sum = 0;
  for (const JsonValue& group : nodes.items()) sum += of_group(group);
  return sum;
}

}  // namespace

TopologyReader::TopologyReader(const JsonValue& root)
    : root_(checked_version(root)), draft_(checked_name(root.at("name")), text_or(root, "source", "")) {
  if (const auto kinds = root_.find("device_kinds")) {
    for (const auto& [name, value] : kinds->members()) {
      DeviceKind kind = read_device_kind(name, value);
      kind.name = checked(value, name, fault_of_name(name));
      draft_.kind(kind);
      kinds_.emplace(name, std::move(kind));
    }
  }
}

TopologyParts TopologyReader::read() && {
  if (const auto levels = root_.find("levels")) {
    root_.allow_only(
        {"pipesim_topology", "name", "source", "price_per_hour", "device_kinds", "levels", "device"});
    read_levels(*levels);
  } else {
    root_.allow_only({"pipesim_topology", "name", "source", "price_per_hour", "device_kinds", "core_switches",
                      "node_kinds", "nodes", "devices", "switches", "vertices", "network", "links", "levels",
                      "device"});
    if (const auto device = root_.find("device"))
      device->fail("\"device\" goes with \"levels\", which is missing");
    read_named_parts();
  }
  TopologyParts parts = std::move(draft_).finish();
  if (const auto price = root_.find("price_per_hour"))
    parts.price_per_hour = checked(*price, price->number(), fault_of_price(price->number()));
  return parts;
}

void TopologyReader::read_levels(const JsonValue& list) {
  std::vector<Level> levels;
  for (const JsonValue& item : list.items()) {
    item.allow_only({"size", "bandwidth", "latency", "duplex"});
    levels.push_back({item.at("size").integer(1, max_devices), read_cable(item, false)});
    if (device_count(levels) > max_devices)
      check_room(item.at("size"), max_devices, 1, max_devices, "devices");
  }
  if (levels.empty()) list.fail("found no levels, at least one is needed");
  const auto device = root_.find("device");
  if (!device) return add_levels(draft_, default_level_kind(), levels);
  const auto own = device->is_string() ? kinds_.find(device->string()) : kinds_.end();
  add_levels(draft_, own != kinds_.end() ? own->second : read_device_kind("device", *device), levels);
}

void TopologyReader::read_named_parts() {
  if (const auto kinds = root_.find("node_kinds")) {
    for (const auto& [name, body] : kinds->members()) node_kinds_.emplace(name, body);
  }
  if (const auto list = root_.find("core_switches")) read_core_switches(*list);
  const JsonValue nodes = root_.at("nodes");
  one_node_ = number_of_nodes(nodes) == 1;
  if (nodes.is_object()) read_node_group(nodes);
  if (!nodes.is_object())
    for (const JsonValue& item : nodes.items()) read_node_group(item);
  if (const auto list = root_.find("devices"))
    for (const JsonValue& item : list->items()) read_flat_device(item);
  if (const auto list = root_.find("switches")) read_junctions(*list, VertexKind::Switch, "", -1);
  if (const auto list = root_.find("vertices"))
    for (const JsonValue& item : list->items()) read_flat_vertex(item);
  if (draft_.num_devices() == 0) nodes.fail("found no devices in any node, at least one is needed");
  if (const auto network = root_.find("network")) read_network(*network);
  if (const auto links = root_.find("links")) read_links(*links, {});
}

void TopologyReader::read_node_group(const JsonValue& value) {
  if (value.is_string()) {
    const std::string name = checked_name(value);
    if (!nodes_.emplace(name, draft_.add_node(name)).second)
      value.fail(fmt::format("two nodes are called \"{}\"", name));
    return node_names_.push_back(name);
  }
  const auto of = value.find("of");
  if (!of) {
    value.allow_only({"name", "prefix", "devices", "switches", "nics", "vertices", "links"});
    const std::string name = checked_name(value.at("name"));
    return add_node(value, name, text_or(value, "prefix", usual_prefix(name)), value);
  }
  value.allow_only({"count", "of", "name"});
  const auto body = node_kinds_.find(of->string());
  if (body == node_kinds_.end()) {
    const std::vector<std::string> names = names_of(node_kinds_);
    of->fail(fmt::format("unknown node kind \"{}\"{}; \"node_kinds\" has {}", of->string(),
                         did_you_mean(of->string(), names), names.empty() ? "none" : list_names(names)));
  }
  body->second.allow_only({"devices", "switches", "nics", "vertices", "links"});
  read_node_copies(value, body->second);
}

void TopologyReader::read_node_copies(const JsonValue& group, const JsonValue& body) {
  const auto count = group.find("count");
  const auto name = group.find("name");
  if (!count && name) return add_node(group, checked_name(*name), usual_prefix(checked_name(*name)), body);
  const std::int64_t copies = count ? count->integer(1, max_devices) : 1;
  for (std::int64_t i = 0; i < copies; ++i) {
    // Groups that give no name go on counting where the group before them stopped.
    const std::string copy =
        name ? fmt::format("{}{}", checked_name(*name), i) : fmt::format("node{}", draft_.num_nodes());
    add_node(group, copy, usual_prefix(copy), body);
  }
}

// Devices of a single node get no prefix, as in presets.
std::string TopologyReader::usual_prefix(const std::string& node) const {
  return one_node_ ? "" : node + ".";
}

void TopologyReader::add_node(const JsonValue& place, const std::string& name, const std::string& prefix,
                              const JsonValue& body) {
  const std::int32_t node = draft_.add_node(name);
  if (!nodes_.emplace(name, node).second) place.fail(fmt::format("two nodes are called \"{}\"", name));
  node_names_.push_back(name);
  read_node_body(body, node, {prefix, in_order_.size()});
  if (one_node_) of_only_node_ = in_order_.size();
}

void TopologyReader::read_node_body(const JsonValue& body, std::int32_t node, const Scope& scope) {
  read_devices(body.at("devices"), scope.prefix, node);
  if (const auto list = body.find("switches")) read_junctions(*list, VertexKind::Switch, scope.prefix, node);
  if (const auto list = body.find("nics")) read_junctions(*list, VertexKind::Nic, scope.prefix, node);
  if (const auto list = body.find("vertices")) {
    for (const JsonValue& item : list->items()) {
      item.allow_only({"name", "kind"});
      read_vertex(item, scope.prefix, node);
    }
  }
  if (const auto links = body.find("links")) read_links(*links, scope);
}

void TopologyReader::read_devices(const JsonValue& list, const std::string& prefix, std::int32_t node) {
  // A single group of devices needs no brackets.
  const std::vector<JsonValue> groups = list.is_object() ? std::vector{list} : list.items();
  for (const JsonValue& item : groups) {
    item.allow_only({"name", "kind", "count"});
    const std::int32_t kind = device_kind(item.at("kind"));
    const std::string name = item.find("name") ? checked_name(item.at("name")) : "gpu";
    const auto count = item.find("count");
    if (!count) {
      add_device(item, prefix + name, kind, node);
      continue;
    }
    const std::int64_t copies = count->integer(1, max_devices);
    check_room(*count, draft_.num_devices(), copies, max_devices, "devices");
    for (std::int64_t i = 0; i < copies; ++i)
      add_device(item, fmt::format("{}{}{}", prefix, name, i), kind, node);
  }
}

void TopologyReader::read_flat_device(const JsonValue& value) {
  value.allow_only({"name", "kind", "node"});
  add_device(value, checked_name(value.at("name")), device_kind(value.at("kind")),
             node_named(value.at("node")));
}

void TopologyReader::read_flat_vertex(const JsonValue& value) {
  value.allow_only({"name", "kind", "node"});
  const auto node = value.find("node");
  read_vertex(value, "", node ? node_named(*node) : -1);
}

void TopologyReader::read_vertex(const JsonValue& value, const std::string& prefix, std::int32_t node) {
  const std::string kind = value.at("kind").string();
  const std::map<std::string, VertexKind, std::less<>> kinds{
      {"switch", VertexKind::Switch}, {"nic", VertexKind::Nic}, {"bus", VertexKind::Bus}};
  const auto known = kinds.find(kind);
  if (known == kinds.end())
    value.at("kind").fail(fmt::format("found \"{}\", allowed: \"switch\", \"nic\", \"bus\"", kind));
  add_junction(value, prefix + checked_name(value.at("name")), known->second, node);
}

void TopologyReader::read_core_switches(const JsonValue& list) {
  for (const JsonValue& item : list.items()) {
    const std::string name = checked_name(item);
    add_junction(item, name, VertexKind::Switch, -1);
    core_.emplace(name, vertices_.at(name));
  }
}

void TopologyReader::read_junctions(const JsonValue& list, VertexKind kind, const std::string& prefix,
                                    std::int32_t node) {
  for (const JsonValue& item : list.items()) add_junction(item, prefix + checked_name(item), kind, node);
}

void TopologyReader::read_network(const JsonValue& network) {
  network.allow_only({"name", "bandwidth", "latency", "duplex"});
  const Cable cable = read_cable(network, true);
  const std::string name = network.find("name") ? checked_name(network.at("name")) : "network";
  std::vector<bool> reached(node_names_.size());
  for (const NodeNic& nic : nics_) reached[static_cast<std::size_t>(nic.node)] = true;
  const auto lonely = std::find(reached.begin(), reached.end(), false);
  if (lonely != reached.end())
    network.fail(fmt::format("node \"{}\" has no NIC to connect to the network",
                             node_names_[static_cast<std::size_t>(lonely - reached.begin())]));
  add_junction(network, name, VertexKind::Switch, -1);
  for (const NodeNic& nic : nics_) connect(network, nic.vertex, vertices_.at(name), cable);
}

void TopologyReader::read_links(const JsonValue& list, const Scope& scope) {
  for (const JsonValue& item : list.items()) {
    if (item.find("links")) {
      read_repeated_links(item, scope);
    } else {
      read_link(item, scope);
    }
  }
}

// Repeated links can't be nested: a short file could ask for endless work.
void TopologyReader::read_repeated_links(const JsonValue& value, const Scope& scope) {
  value.allow_only({"count", "links"});
  const std::int64_t count = value.at("count").integer(1, max_links);
  const std::vector<JsonValue> links = value.at("links").items();
  if (links.empty()) value.at("links").fail("found no links to repeat");
  Scope copy = scope;
  for (std::int64_t number = 0; number < count; ++number) {
    copy.number = number;
    for (const JsonValue& link : links) read_link(link, copy);
  }
}

void TopologyReader::read_link(const JsonValue& value, const Scope& scope) {
  value.allow_only({"between", "bandwidth", "latency", "duplex"});
  const JsonValue between = value.at("between");
  const std::vector<JsonValue> ends = between.items();
  if (ends.size() != 2) between.fail(fmt::format("found {} ends, a link has 2", ends.size()));
  const Cable cable = read_cable(value, true);
  const std::vector<DraftVertex> first = vertices_like(ends[0], scope),
                                 second = vertices_like(ends[1], scope);
  const bool same = ends[0].string() == ends[1].string();
  if (same && first.size() == 1)
    between.fail(fmt::format("found {}, a vertex needs no link to itself", between.text()));
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (std::size_t j = same ? i + 1 : 0; j < second.size(); ++j) {
      if (first[i] == second[j])
        between.fail(fmt::format("found {}, which would link a vertex to itself", between.text()));
      connect(value, first[i], second[j], cable);
    }
  }
}

std::int32_t TopologyReader::device_kind(const JsonValue& value) {
  const std::string name = value.string();
  if (const auto own = kinds_.find(name); own != kinds_.end()) return draft_.kind(own->second);
  if (const DeviceKind* kind = find_built_in_device_kind(name)) return draft_.kind(*kind);
  std::vector<std::string> names = names_of(kinds_);
  for (const std::string& built_in : built_in_device_kind_names())
    if (!kinds_.contains(built_in)) names.push_back(built_in);
  value.fail(fmt::format("unknown device kind \"{}\"{}; there are {}", name, did_you_mean(name, names),
                         list_names(names)));
}

std::int32_t TopologyReader::node_named(const JsonValue& value) {
  const auto found = nodes_.find(value.string());
  if (found == nodes_.end())
    value.fail(fmt::format("unknown node \"{}\"{}; there are {}", value.string(),
                           did_you_mean(value.string(), node_names_), list_names(node_names_, 8)));
  return found->second;
}

std::vector<DraftVertex> TopologyReader::vertices_like(const JsonValue& value, const Scope& scope) const {
  std::string text = value.string();
  if (scope.number) {
    const std::string number = std::to_string(*scope.number);
    for (std::size_t at = 0; (at = text.find('#', at)) != std::string::npos; at += number.size())
      text.replace(at, 1, number);
  }
  const std::string full = scope.prefix + text;
  std::vector<DraftVertex> result;
  const auto stars = std::count(text.begin(), text.end(), '*');
  if (stars > 1) value.fail(fmt::format("found \"{}\", at most one '*' is allowed", text));
  if (stars == 1) {
    for (std::size_t i = scope.first; i < in_order_.size(); ++i)
      if (matches(in_order_[i].name, full)) result.push_back(in_order_[i].vertex);
    const bool found = !result.empty();
    for (std::size_t i = 0; i < of_only_node_ && !found; ++i)
      if (matches(node_names_.front() + "." + in_order_[i].name, text)) result.push_back(in_order_[i].vertex);
    if (result.empty())
      value.fail(fmt::format("no vertex has a name like \"{}\" with a number for '*'", text));
    return result;
  }
  if (const auto found = vertices_.find(full); found != vertices_.end()) return {found->second};
  if (const auto found = core_.find(text); found != core_.end()) return {found->second};
  for (std::size_t i = 0; i < of_only_node_; ++i) {
    if (node_names_.front() + "." + in_order_[i].name == text) return {in_order_[i].vertex};
  }
  std::vector<std::string> names;
  for (std::size_t i = scope.first; i < in_order_.size(); ++i)
    names.push_back(in_order_[i].name.substr(scope.prefix.size()));
  value.fail(fmt::format("unknown vertex \"{}\"{}; there are {}", text, did_you_mean(text, names),
                         list_names(names, 8)));
}

void TopologyReader::add_device(const JsonValue& place, const std::string& name, std::int32_t kind,
                                std::int32_t node) {
  check_room(place, draft_.num_devices(), 1, max_devices, "devices");
  note(place, name, draft_.add_device(name, kind, node));
}

void TopologyReader::add_junction(const JsonValue& place, const std::string& name, VertexKind kind,
                                  std::int32_t node) {
  check_room(place, draft_.num_junctions(), 1, max_junctions, "switches and NICs");
  const DraftVertex vertex = kind == VertexKind::Nic   ? draft_.add_nic(name, node)
                             : kind == VertexKind::Bus ? draft_.add_bus(name, node)
                                                       : draft_.add_switch(name, node);
  note(place, name, vertex);
  if (kind == VertexKind::Nic && node >= 0) nics_.push_back({node, vertex});
}

void TopologyReader::note(const JsonValue& place, const std::string& name, DraftVertex vertex) {
  if (!vertices_.emplace(name, vertex).second)
    place.fail(fmt::format("two vertices are called \"{}\"", name));
  in_order_.push_back({name, vertex});
}

void TopologyReader::connect(const JsonValue& place, DraftVertex a, DraftVertex b, Cable cable) {
  check_room(place, draft_.num_links(), 1, max_links, "links");
  draft_.connect(a, b, cable);
}

}  // namespace pipesim

#include "topologies/topology.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <unordered_map>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/checks.h"
#include "topologies/routing.h"

namespace pipesim {

namespace {

std::optional<std::int32_t> bus_of(const Link& link, const TopologyParts& parts) {
  for (const std::int32_t end : {link.a, link.b}) {
    if (parts.vertices[static_cast<std::size_t>(end)].kind == VertexKind::Bus) return end;
  }
  return std::nullopt;
}

TopologyParts with_lanes(TopologyParts parts) {
  check_parts(parts);
  auto next = static_cast<std::int32_t>(parts.devices.size());
  std::unordered_map<std::int32_t, LaneId> lane_of_bus;
  for (Link& link : parts.links) {
    const std::optional<std::int32_t> bus = bus_of(link, parts);
    const auto known = bus ? lane_of_bus.find(*bus) : lane_of_bus.end();
    if (known != lane_of_bus.end()) {
      link.forward = link.backward = known->second;
      continue;
    }
    link.forward = LaneId(next++);
    link.backward = link.duplex ? LaneId(next++) : link.forward;
    if (bus) lane_of_bus.emplace(*bus, link.forward);
  }
  return parts;
}

// FNV-1a over length-prefixed fields: equal on every machine, unlike std::hash.
class Fingerprint {
 public:
  void add(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) hash_ = (hash_ ^ ((word >> shift) & 0xff)) * 0x100000001b3;
  }
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  void add(std::int32_t number) { add(static_cast<std::int64_t>(number)); }
  void add(bool flag) { add(std::uint64_t{flag}); }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  void add(const std::vector<EfficiencyPoint>& curve) {
    add(std::uint64_t{curve.size()});
    for (const EfficiencyPoint& point : curve) add(point.flops.value), add(point.fraction);
  }
  void add(const FusedAttention& attention) {
    add(attention.forward), add(attention.backward);
    if (attention.half_rate_keys != 0) add(std::string_view("keys")), add(attention.half_rate_keys);
    if (attention.half_rate_rows != 0) add(std::string_view("rows")), add(attention.half_rate_rows);
  }
  void add(const DeviceKind& kind) {
    add(std::string_view(kind.name));
    add(std::uint64_t{kind.peak.size()});
    for (const auto& [type, rate] : kind.peak) add(name_of(type)), add(rate.value);
    add(kind.products.efficiency);
    add(kind.memory.value), add(kind.memory_bandwidth.value), add(kind.memory_efficiency);
    add(kind.launch_overhead.value), add(kind.overlap);
    // Plans name the fingerprints of kinds as they were before there was this.
    if (!kind.shape_losses) add(kind.shape_losses);
    if (kind.fused_attention) add(*kind.fused_attention);
    if (kind.flash_attention_2) add(std::string_view("flash_attention_2")), add(*kind.flash_attention_2);
    if (kind.products.sustained != 1) add(std::string_view("sustained")), add(kind.products.sustained);
    for (const auto& [type, rate] : kind.product_rates)
      add(std::string_view("products")), add(name_of(type)), add(rate.efficiency), add(rate.sustained);
    if (kind.collectives) {
      add(std::string_view("collectives"));
      add(kind.collectives->call.value), add(kind.collectives->in_switch);
    }
  }
  void add(const Link& link) {
    add(link.a), add(link.b), add(link.bandwidth.value), add(link.latency.value), add(link.duplex);
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

struct Topology::State {
  TopologyParts parts;
  std::size_t num_lanes = 0;
  std::vector<std::int32_t> link_of_lane;  // lane − number of devices → link
  std::unordered_map<std::string_view, DeviceId> device_of_name;
  std::vector<std::vector<DeviceId>> devices_of_node;
  Router router;

  explicit State(TopologyParts p) : parts(with_lanes(std::move(p))), router(parts) {
    for (std::size_t i = 0; i < parts.links.size(); ++i) {
      const Link& link = parts.links[i];
      if (link.forward.index() < parts.devices.size() + link_of_lane.size()) continue;  // its bus has it
      link_of_lane.insert(link_of_lane.end(), link.duplex ? 2 : 1, static_cast<std::int32_t>(i));
    }
    num_lanes = parts.devices.size() + link_of_lane.size();
    devices_of_node.resize(parts.nodes.size());
    for (std::size_t i = 0; i < parts.devices.size(); ++i) {
      device_of_name.emplace(parts.devices[i].name, DeviceId(i));
      devices_of_node[static_cast<std::size_t>(parts.devices[i].node)].emplace_back(i);
    }
  }

  [[nodiscard]] const Link& link(LaneId lane) const {
    if (lane.index() < parts.devices.size() || lane.index() >= num_lanes)
      throw InternalError(
          fmt::format("lane {} belongs to no link of topology \"{}\"", lane.value, parts.name));
    return parts.links[static_cast<std::size_t>(link_of_lane[lane.index() - parts.devices.size()])];
  }
};

Topology::Topology(TopologyParts parts) : state_(std::make_shared<const State>(std::move(parts))) {}

const std::string& Topology::name() const { return state_->parts.name; }
const TopologyParts& Topology::parts() const { return state_->parts; }
std::size_t Topology::num_devices() const { return state_->parts.devices.size(); }
std::size_t Topology::num_nodes() const { return state_->parts.nodes.size(); }
std::size_t Topology::num_lanes() const { return state_->num_lanes; }
const Device& Topology::device(DeviceId id) const { return state_->parts.devices.at(id.index()); }
const DeviceKind& Topology::kind(DeviceId id) const {
  return state_->parts.kinds[static_cast<std::size_t>(device(id).kind)];
}

Bytes Topology::usable_memory(DeviceId id, std::int32_t communicators) const {
  const DeviceKind& of = kind(id);
  const Bytes left = of.memory_overhead.usable(of.memory, communicators);
  return margin_.is_none() ? left : left - margin_.of(of.memory);
}

Bytes Topology::usable_memory() const {
  Bytes sum;
  for (std::size_t d = 0; d < num_devices(); ++d) sum += usable_memory(DeviceId(d));
  return sum;
}

Topology Topology::with_memory_margin(const MemoryMargin& margin) const {
  Topology same = *this;
  same.margin_ = margin;
  for (std::size_t d = 0; d < num_devices(); ++d) {
    if (same.usable_memory(DeviceId(d)).value > 0) continue;
    throw InputError(fmt::format("a margin of {} leaves nothing of the {} of device \"{}\"", margin.str(),
                                 pretty(kind(DeviceId(d)).memory), device(DeviceId(d)).name));
  }
  return same;
}

std::optional<DeviceId> Topology::find_device(std::string_view name) const {
  const auto& known = state_->device_of_name;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  if (num_nodes() != 1) return std::nullopt;
  const std::string node = parts().nodes.front() + ".";
  const std::string other =
      name.starts_with(node) ? std::string(name.substr(node.size())) : node + std::string(name);
  const auto found = known.find(other);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

DeviceId Topology::device_named(std::string_view name) const {
  if (const std::optional<DeviceId> found = find_device(name)) return *found;
  std::vector<std::string> names;
  for (const Device& device : parts().devices) names.push_back(device.name);
  const std::string range = names.size() == 1 ? names.front() : names.front() + ".." + names.back();
  throw InputError(fmt::format("unknown device \"{}\" (topology \"{}\" has {}){}", name, this->name(), range,
                               did_you_mean(name, names)));
}

std::span<const DeviceId> Topology::devices_of_node(std::int32_t node) const {
  return state_->devices_of_node.at(static_cast<std::size_t>(node));
}

std::string Topology::lane_name(LaneId lane) const {
  if (lane.valid() && lane.index() < num_devices()) return device(DeviceId(lane.value)).name;
  const Link& link = state_->link(lane);
  if (const std::optional<std::int32_t> bus = bus_of(link, parts()))
    return parts().vertices[static_cast<std::size_t>(*bus)].name;
  const std::string& a = parts().vertices[static_cast<std::size_t>(link.a)].name;
  const std::string& b = parts().vertices[static_cast<std::size_t>(link.b)].name;
  if (!link.duplex) return a + " <-> " + b;
  return lane == link.forward ? a + " -> " + b : b + " -> " + a;
}

BytesPerSecond Topology::lane_bandwidth(LaneId lane) const { return state_->link(lane).bandwidth; }

Route Topology::route(DeviceId from, DeviceId to) const {
  if (from == to || !from.valid() || !to.valid() || std::max(from, to).index() >= num_devices())
    throw InternalError(fmt::format("no route from device {} to device {}", from.value, to.value));
  Route route;
  const std::vector<Arc> way = state_->router.way(from.value, to.value);
  route.lanes.reserve(way.size());
  for (const Arc arc : way) {
    const Link& link = parts().links[arc.link()];
    route.bandwidth = route.lanes.empty() ? link.bandwidth : std::min(route.bandwidth, link.bandwidth);
    route.latency += link.latency;
    const LaneId lane = arc.forward() ? link.forward : link.backward;
    if (route.lanes.empty() || route.lanes.back() != lane) route.lanes.push_back(lane);
  }
  return route;
}

int Topology::distance(DeviceId from, DeviceId to) const {
  if (from == to) return 0;
  return device(from).node == device(to).node ? 1 : 2;
}

std::string Topology::fingerprint() const {
  Fingerprint print;
  const auto add_all = [&](const auto& list, auto add) {
    print.add(std::uint64_t{list.size()});
    for (const auto& item : list) add(item);
  };
  add_all(parts().kinds, [&](const DeviceKind& kind) { print.add(kind); });
  add_all(parts().devices, [&](const Device& d) { print.add(std::string_view(d.name)), print.add(d.kind); });
  add_all(parts().vertices, [&](const Vertex& v) { print.add(v.node), print.add(static_cast<int>(v.kind)); });
  add_all(parts().links, [&](const Link& link) { print.add(link); });
  return print.text();
}

}  // namespace pipesim

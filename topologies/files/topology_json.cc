#include "topologies/files/topology_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/json_reader.h"
#include "topologies/files/device_kind_json.h"
#include "topologies/files/topology_reader.h"

namespace pipesim {

namespace {

using Json = nlohmann::ordered_json;

Topology built(const JsonValue& root) {
  TopologyParts parts = TopologyReader(root).read();
  try {
    return Topology(std::move(parts));
  } catch (const InputError& error) {
    root.find("links").value_or(root).fail(error.what());
  }
}

}  // namespace

nlohmann::ordered_json collectives_json(const CollectiveTraits& traits) {
  nlohmann::ordered_json json{{"call", to_text(traits.call)}};
  if (traits.in_switch) json["in_switch"] = true;
  return json;
}

nlohmann::ordered_json efficiency_json(const std::vector<EfficiencyPoint>& curve) {
  Json json = Json::array();
  for (const EfficiencyPoint& point : curve) json.push_back(Json::array({point.flops.value, point.fraction}));
  return json;
}

nlohmann::ordered_json product_rates_json(const std::map<DataType, ProductRate>& rates) {
  Json json = Json::object();
  for (const auto& [type, rate] : rates) {
    Json& of_type = json[std::string(name_of(type))];
    of_type["efficiency"] = efficiency_json(rate.efficiency);
    if (rate.sustained != 1) of_type["sustained"] = rate.sustained;
  }
  return json;
}

nlohmann::ordered_json fused_attention_json(const FusedAttention& fused) {
  Json json{{"forward", fused.forward}, {"backward", fused.backward}};
  if (fused.half_rate_keys != 0) json["half_rate_keys"] = fused.half_rate_keys;
  if (fused.half_rate_rows != 0) json["half_rate_rows"] = fused.half_rate_rows;
  return json;
}

nlohmann::ordered_json overhead_json(const MemoryOverhead& overhead) {
  Json json{{"installed", to_text(overhead.installed)}};
  if (overhead.context.value > 0) json["context"] = to_text(overhead.context);
  if (overhead.communicator.value > 0) json["communicator"] = to_text(overhead.communicator);
  if (overhead.fragmentation > 0) json["fragmentation"] = overhead.fragmentation;
  return json;
}

namespace {

Json kind_json(const DeviceKind& kind) {
  Json peak = Json::object();
  for (const auto& [type, rate] : kind.peak) peak[std::string(name_of(type))] = to_text(rate);
  Json json{{"peak", peak},
            {"efficiency", efficiency_json(kind.products.efficiency)},
            {"memory", to_text(kind.memory)},
            {"memory_bandwidth", to_text(kind.memory_bandwidth)},
            {"memory_efficiency", kind.memory_efficiency},
            {"launch_overhead", to_text(kind.launch_overhead)},
            {"overlap", kind.overlap},
            {"source", kind.source}};
  if (!kind.shape_losses) json["shape_losses"] = false;
  if (kind.products.sustained != 1) json["sustained"] = kind.products.sustained;
  if (!kind.product_rates.empty()) json["product_rates"] = product_rates_json(kind.product_rates);
  if (kind.fused_attention) json["fused_attention"] = fused_attention_json(*kind.fused_attention);
  if (kind.flash_attention_2) json["flash_attention_2"] = fused_attention_json(*kind.flash_attention_2);
  if (!kind.memory_overhead.is_none()) json["memory_overhead"] = overhead_json(kind.memory_overhead);
  if (kind.collectives) json["collectives"] = collectives_json(*kind.collectives);
  return json;
}

Json vertex_json(const Vertex& vertex, const TopologyParts& parts) {
  const char* kind = vertex.kind == VertexKind::Nic   ? "nic"
                     : vertex.kind == VertexKind::Bus ? "bus"
                                                      : "switch";
  Json json{{"name", vertex.name}, {"kind", kind}};
  if (vertex.node >= 0) json["node"] = parts.nodes[static_cast<std::size_t>(vertex.node)];
  return json;
}

Json link_json(const Link& link, const TopologyParts& parts) {
  const auto name = [&](std::int32_t v) { return parts.vertices[static_cast<std::size_t>(v)].name; };
  Json json{{"between", Json::array({name(link.a), name(link.b)})},
            {"bandwidth", to_text(link.bandwidth)},
            {"latency", to_text(link.latency)}};
  if (!link.duplex) json["duplex"] = false;
  return json;
}

std::string line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string lines(const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format("\n    {}\n  ", fmt::join(items, ",\n    "));
}

}  // namespace

Topology parse_topology(std::string_view text, const std::string& source) {
  return built(JsonDocument::parse(text, source));
}

Topology load_topology(const std::string& path) { return built(JsonDocument::load(path)); }

std::string to_json(const Topology& topology) {
  const TopologyParts& parts = topology.parts();
  std::vector<std::string> kinds, devices, vertices, links;
  for (const DeviceKind& kind : parts.kinds) kinds.push_back(line(kind.name) + ": " + line(kind_json(kind)));
  for (const Device& device : parts.devices)
    devices.push_back(line({{"name", device.name},
                            {"kind", parts.kinds[static_cast<std::size_t>(device.kind)].name},
                            {"node", parts.nodes[static_cast<std::size_t>(device.node)]}}));
  for (std::size_t v = parts.devices.size(); v < parts.vertices.size(); ++v)
    vertices.push_back(line(vertex_json(parts.vertices[v], parts)));
  for (const Link& link : parts.links) links.push_back(line(link_json(link, parts)));
  const std::string price =
      parts.price_per_hour > 0 ? fmt::format("\n  \"price_per_hour\": {},", line(parts.price_per_hour)) : "";
  return fmt::format(
      "{{\n  \"pipesim_topology\": 1,\n  \"name\": {},\n  \"source\": {},{}\n  \"device_kinds\": {{{}}},\n"
      "  \"nodes\": {},\n  \"devices\": [{}],\n  \"vertices\": [{}],\n  \"links\": [{}]\n}}\n",
      line(parts.name), line(parts.source), price, lines(kinds), line(parts.nodes), lines(devices),
      lines(vertices), lines(links));
}

}  // namespace pipesim

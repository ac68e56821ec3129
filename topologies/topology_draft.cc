#include "topologies/topology_draft.h"

#include <utility>

namespace pipesim {

TopologyDraft::TopologyDraft(std::string name, std::string source) {
  parts_.name = std::move(name);
  parts_.source = std::move(source);
}

std::int32_t TopologyDraft::kind(const DeviceKind& kind) {
  const auto next = static_cast<std::int32_t>(parts_.kinds.size());
  const auto [it, added] = kind_of_name_.emplace(kind.name, next);
  if (added) parts_.kinds.push_back(kind);
  return it->second;
}

std::int32_t TopologyDraft::add_node(std::string name) {
  parts_.nodes.push_back(std::move(name));
  return static_cast<std::int32_t>(parts_.nodes.size()) - 1;
}

DraftVertex TopologyDraft::add_device(std::string name, std::int32_t kind, std::int32_t node) {
  parts_.vertices.push_back({name, VertexKind::Device, node});
  parts_.devices.push_back({std::move(name), kind, node});
  return {true, static_cast<std::int32_t>(parts_.devices.size()) - 1};
}

DraftVertex TopologyDraft::add_switch(std::string name, std::int32_t node) {
  return add_junction(std::move(name), VertexKind::Switch, node);
}

DraftVertex TopologyDraft::add_nic(std::string name, std::int32_t node) {
  return add_junction(std::move(name), VertexKind::Nic, node);
}

DraftVertex TopologyDraft::add_bus(std::string name, std::int32_t node) {
  return add_junction(std::move(name), VertexKind::Bus, node);
}

DraftVertex TopologyDraft::add_junction(std::string name, VertexKind kind, std::int32_t node) {
  junctions_.push_back({std::move(name), kind, node});
  return {false, static_cast<std::int32_t>(junctions_.size()) - 1};
}

void TopologyDraft::connect(DraftVertex a, DraftVertex b, Cable cable) {
  Link link;
  link.bandwidth = cable.bandwidth;
  link.latency = cable.latency;
  link.duplex = cable.duplex;
  parts_.links.push_back(link);
  ends_.push_back({a, b});
}

std::vector<double> TopologyDraft::junction_bandwidths() const {
  std::vector<double> sums(junctions_.size(), 0);
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    for (const DraftVertex end : {ends_[i].a, ends_[i].b}) {
      if (!end.device) sums[static_cast<std::size_t>(end.index)] += parts_.links[i].bandwidth.value;
    }
  }
  return sums;
}

TopologyParts TopologyDraft::finish() && {
  const auto junctions_at = static_cast<std::int32_t>(parts_.devices.size());
  const auto number = [&](DraftVertex v) { return v.device ? v.index : junctions_at + v.index; };
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    parts_.links[i].a = number(ends_[i].a);
    parts_.links[i].b = number(ends_[i].b);
  }
  for (Vertex& junction : junctions_) parts_.vertices.push_back(std::move(junction));
  return std::move(parts_);
}

}  // namespace pipesim

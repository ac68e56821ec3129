#include "taskgraph/links/network_cuts.h"

#include <algorithm>

namespace pipesim {

Borders::Borders(const CostModel& costs) {
  const Topology& topology = costs.topology();
  if (costs.calibrated() || topology.num_devices() > kMostDevices) return;
  for (std::size_t d = 0; d < topology.num_devices(); ++d)
    node_of_.push_back(topology.device(DeviceId(d)).node);
  borders_.resize(2 * (topology.num_devices() + topology.num_nodes()));
  const auto cross = [&](std::int32_t from, std::int32_t to, LaneId lane) {
    const Vertex& f = topology.parts().vertices[static_cast<std::size_t>(from)];
    const Vertex& t = topology.parts().vertices[static_cast<std::size_t>(to)];
    if (f.kind == VertexKind::Device) add(into(DeviceId(from)) + 1, lane, topology);
    if (t.kind == VertexKind::Device) add(into(DeviceId(to)), lane, topology);
    if (f.node == t.node) return;
    if (f.node >= 0) add(into_node(f.node) + 1, lane, topology);
    if (t.node >= 0) add(into_node(t.node), lane, topology);
  };
  for (const Link& link : topology.parts().links) {
    cross(link.a, link.b, link.forward);
    cross(link.b, link.a, link.backward);
  }
}

void Borders::add(std::size_t border, LaneId lane, const Topology& topology) {
  Border& b = borders_[border];
  if (std::ranges::find(b.lanes, lane, &Lane::lane) != b.lanes.end()) return;
  b.lanes.push_back({lane, topology.lane_bandwidth(lane).value * 1e-9});
  b.bandwidth += b.lanes.back().bandwidth;
}

}  // namespace pipesim

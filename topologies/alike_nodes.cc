#include "topologies/alike_nodes.h"

#include <map>
#include <tuple>
#include <utility>

namespace pipesim {
namespace {

// An end of a link: a vertex of the node by its place there, or one that is in no node.
using End = std::pair<bool, std::int32_t>;
struct NodeShape {
  std::vector<std::int32_t> kinds;                                // of its devices
  std::vector<VertexKind> vertices;                               // in their order
  std::vector<std::tuple<End, End, double, double, bool>> links;  // bandwidth, latency, duplex
  std::int32_t alone = -1;  // its number, where it is in a class of its own
  auto operator<=>(const NodeShape&) const = default;
};

}  // namespace

std::vector<std::int32_t> classes_of_nodes(const Topology& topology) {
  const TopologyParts& parts = topology.parts();
  std::vector<NodeShape> shapes(parts.nodes.size());
  const auto node_of = [&](std::int32_t vertex) {
    const auto v = static_cast<std::size_t>(vertex);
    return v < parts.devices.size() ? parts.devices[v].node : parts.vertices[v].node;
  };
  std::vector<std::int32_t> place;  // by vertex: in its node, or its own number
  for (std::size_t v = 0; v < parts.vertices.size(); ++v) {
    const std::int32_t node = node_of(static_cast<std::int32_t>(v));
    if (node < 0) {
      place.push_back(static_cast<std::int32_t>(v));
      continue;
    }
    NodeShape& shape = shapes[static_cast<std::size_t>(node)];
    place.push_back(static_cast<std::int32_t>(shape.vertices.size()));
    shape.vertices.push_back(parts.vertices[v].kind);
    if (v < parts.devices.size()) shape.kinds.push_back(parts.devices[v].kind);
  }
  for (const Link& link : parts.links) {
    const std::int32_t a = node_of(link.a), b = node_of(link.b);
    const auto end_of = [&](std::int32_t vertex) {
      return End(node_of(vertex) >= 0, place[static_cast<std::size_t>(vertex)]);
    };
    for (const std::int32_t node : {a, b}) {
      if (node < 0) continue;
      NodeShape& shape = shapes[static_cast<std::size_t>(node)];
      shape.links.emplace_back(end_of(link.a), end_of(link.b), link.bandwidth.value, link.latency.value,
                               link.duplex);
      if (a >= 0 && b >= 0 && a != b) shape.alone = node;
      if (a == b) break;
    }
  }
  std::map<NodeShape, std::int32_t> classes;
  std::vector<std::int32_t> class_of;
  for (NodeShape& shape : shapes)
    class_of.push_back(
        classes.try_emplace(std::move(shape), static_cast<std::int32_t>(classes.size())).first->second);
  return class_of;
}

}  // namespace pipesim

#include "topologies/changes/link_places.h"

#include <algorithm>
#include <map>

namespace pipesim {
namespace {

LinkPlace place_of(const Vertex& a, const Vertex& b) {
  if (a.node != b.node || a.node < 0) return LinkPlace::BetweenNodes;
  const bool to_nic = a.kind == VertexKind::Nic || b.kind == VertexKind::Nic;
  return to_nic ? LinkPlace::ToNic : LinkPlace::InsideNode;
}

}  // namespace

LinkPlaces::LinkPlaces(const TopologyParts& parts)
    : all_(parts.links), widest_to_others_(parts.vertices.size()) {
  std::map<std::int32_t, std::int64_t> nics;  // by node
  for (const Vertex& vertex : parts.vertices) {
    if (vertex.kind == VertexKind::Nic && vertex.node >= 0)
      nics_of_node_ = std::max(nics_of_node_, ++nics[vertex.node]);
  }
  for (std::size_t l = 0; l < all_.size(); ++l) {
    const auto a = static_cast<std::size_t>(all_[l].a), b = static_cast<std::size_t>(all_[l].b);
    places_.push_back(place_of(parts.vertices[a], parts.vertices[b]));
    links_[static_cast<std::size_t>(places_.back())].push_back(l);
    if (places_.back() != LinkPlace::BetweenNodes) continue;
    for (const std::size_t end : {a, b}) {
      if (parts.vertices[end].kind == VertexKind::Nic)
        widest_to_others_[end] = std::max(widest_to_others_[end], all_[l].bandwidth);
    }
  }
}

BytesPerSecond LinkPlaces::narrowest(LinkPlace place) const {
  return all_[std::ranges::min(of(place), {}, [&](std::size_t l) { return all_[l].bandwidth; })].bandwidth;
}

BytesPerSecond LinkPlaces::widest(LinkPlace place) const {
  return all_[std::ranges::max(of(place), {}, [&](std::size_t l) { return all_[l].bandwidth; })].bandwidth;
}

Seconds LinkPlaces::longest_latency(LinkPlace place) const {
  return all_[std::ranges::max(of(place), {}, [&](std::size_t l) { return all_[l].latency; })].latency;
}

}  // namespace pipesim

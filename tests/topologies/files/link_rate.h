#pragma once

#include <cstdint>
#include <string>

#include "topologies/topology.h"

namespace pipesim {

// GB/s of all links that join two vertices, in one direction; 0: none does.
inline double gigabytes_between(const Topology& topology, const std::string& a, const std::string& b) {
  const TopologyParts& parts = topology.parts();
  const auto name = [&](std::int32_t v) { return parts.vertices[static_cast<std::size_t>(v)].name; };
  double sum = 0;
  for (const Link& link : parts.links) {
    if ((name(link.a) == a && name(link.b) == b) || (name(link.a) == b && name(link.b) == a))
      sum += link.bandwidth.value / 1e9;
  }
  return sum;
}

}  // namespace pipesim

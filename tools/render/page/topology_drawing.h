#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/simulated_part.h"
#include "topologies/topology.h"

namespace pipesim {

/// A device, switch, NIC or bus of a drawing; x and y of its centre.
struct DrawnVertex {
  std::string name;   ///< without the node's name, which its box has
  std::string whole;  ///< with it
  VertexKind kind = VertexKind::Device;
  double x = 0, y = 0;
  double busy = 0;         ///< of devices: share of the iteration in which they compute
  std::int64_t alike = 0;  ///< of devices: how many it stands for; 0: another stands for it
  bool operator==(const DrawnVertex&) const = default;
};

/// A link and its load: the share of the iteration in which each direction is held.
struct DrawnLink {
  std::size_t a = 0, b = 0;  ///< vertices of the drawing
  std::string bandwidth, latency;
  bool duplex = true;
  double forward = 0, backward = 0;  ///< a to b, b to a; equal where not duplex
  bool operator==(const DrawnLink&) const = default;
};

struct DrawnNode {
  std::string name;
  double x = 0, y = 0, width = 0, height = 0;  ///< x and y of the upper left corner
  bool operator==(const DrawnNode&) const = default;
};

/// A topology from the devices below to the network above.
struct TopologyDrawing {
  double width = 0, height = 0;
  std::vector<DrawnNode> nodes;
  std::vector<DrawnVertex> vertices;
  std::vector<DrawnLink> links;
  std::size_t nodes_left_out = 0, switches_left_out = 0;
};

/// Draws at most `most_nodes` nodes: those with devices that were simulated go first, then others. Of the
/// network above them it leaves out what is not connected to them, and all but the first 24 junctions.
/// `compute`: by device, its time of computing.
TopologyDrawing draw_topology(const SimulatedPart& part, const Topology& topology,
                              const std::vector<Nanoseconds>& compute, std::size_t most_nodes);

/// By lane of the topology: the share of the iteration in which it is held. A lane that was not simulated has
/// the load of the one that stands for it.
std::vector<double> loads_of_lanes(const SimulatedPart& part, std::size_t num_lanes);

/// The object "topology" of docs/reports.md.
nlohmann::ordered_json json_of(const TopologyDrawing& drawing);

}  // namespace pipesim

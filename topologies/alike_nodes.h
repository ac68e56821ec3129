#pragma once

#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Returns the class of each node. Nodes of a class may change places: they have the same kinds of devices,
/// the same links in the same order inside, and the same links to the same switches outside. When nodes are
/// exchanged for others of their classes, what their devices do takes as long as before. A node with a link
/// to another node is in a class of its own. Takes time for each link, not for pairs of devices.
std::vector<std::int32_t> classes_of_nodes(const Topology& topology);

}  // namespace pipesim

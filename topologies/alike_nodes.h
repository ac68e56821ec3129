#pragma once

#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Classes of nodes that may change places: the same kinds of devices, the same links in the same order
/// among what is in the node, and the same links to the same switches outside. What devices of some nodes
/// take, those of others take that stand for them, where each node stands for one of its class. By node; a
/// node with a link to another node is in a class of its own. Takes time for each link, not for pairs of
/// devices.
std::vector<std::int32_t> classes_of_nodes(const Topology& topology);

}  // namespace pipesim

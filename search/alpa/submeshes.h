#pragma once

#include <cstdint>
#include <vector>

#include "search/pipelines/pipelined_strategy.h"
#include "topologies/topology.h"

namespace pipesim {

/// The numbers of devices that a stage may have: powers of two within a node, a whole node, and several whole
/// nodes.
std::vector<std::int64_t> submesh_sizes(const Topology& topology);

/// Devices for stages of these sizes. Large stages come first, each inside a node with enough free devices,
/// else on whole nodes. The sizes may add up to at most the topology's devices.
std::vector<StageGroup> place_submeshes(const Topology& topology, const std::vector<std::int64_t>& sizes);

}  // namespace pipesim

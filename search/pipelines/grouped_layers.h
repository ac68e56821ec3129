#pragma once

#include <cstdint>
#include <vector>

#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// Layers in groups that no cut parts, and the graph of the groups.
struct GroupedLayers {
  LayerGraph graph;  ///< a group as one layer; its output is what other groups read, or nobody
  std::vector<std::int32_t> group_of;  ///< by layer
};

/// The smallest groups that contain each list completely. A layer on a path from one member to another
/// belongs to the group, too. The cuts of the groups are exactly the cuts of the layers that separate no
/// list.
GroupedLayers kept_together(const LayerGraph& graph, const std::vector<std::vector<std::int32_t>>& together);

/// Merges branches as PipeDream's optimizer does (compress_branches of its published code). Behind every
/// layer that feeds several others, each straight line of layers becomes one layer, up to where lines meet or
/// divide again.
GroupedLayers compressed_branches(const LayerGraph& graph);

/// The groups of groups.
GroupedLayers grouped(const GroupedLayers& inner, const GroupedLayers& outer);

}  // namespace pipesim

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

/// Smallest groups that hold each of the lists as a whole: whatever lies on a way from one member to another
/// belongs to it, too. Any cut of the groups is one of the layers that parts no list, and the other way
/// round.
GroupedLayers kept_together(const LayerGraph& graph, const std::vector<std::vector<std::int32_t>>& together);

/// Branches as PipeDream's optimizer compresses them (compress_branches of its published code): from every
/// layer that feeds several, each straight line of layers that one other feeds becomes one, up to where lines
/// meet or part again.
GroupedLayers compressed_branches(const LayerGraph& graph);

/// The groups of groups.
GroupedLayers grouped(const GroupedLayers& inner, const GroupedLayers& outer);

}  // namespace pipesim

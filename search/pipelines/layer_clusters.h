#pragma once

#include <cstdint>
#include <vector>

#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// Cuts the layers, in their order, into runs of one layer or more, so that as little data as possible passes
/// between them: Alpa's clustering of operators (Zheng et al., OSDI 2022, section 5.2). It minimises first
/// the largest number of bytes that a run reads from runs before it, then their sum, then the sum of the
/// squares of the runs' times. A run of several layers must take less than `tolerance` times the average;
/// where that is impossible, the tolerance is doubled until it is possible.
///
/// Returns the cluster of each layer, from 0. There are `clusters` of them, or as many as possible.
/// `together`: lists of layers that must be in one cluster; layers that can't be separated because of them
/// count as one layer. InternalError for fewer than one cluster or layer, or a tolerance of 0 or less.
std::vector<std::int32_t> cluster_layers(const LayerGraph& graph, std::int32_t clusters,
                                         const std::vector<std::vector<std::int32_t>>& together = {},
                                         double tolerance = 0.5);

/// Each cluster as one layer. Times and parameters are those of its layers together; its output is the data
/// that other clusters read from it, or that nobody reads.
LayerGraph clustered(const LayerGraph& graph, const std::vector<std::int32_t>& cluster_of);

/// Bytes that the run of layers [first, last) reads from layers before it, each output once.
Bytes read_from_before(const LayerGraph& graph, std::int32_t first, std::int32_t last);

}  // namespace pipesim

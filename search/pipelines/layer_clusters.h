#pragma once

#include <cstdint>
#include <vector>

#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// Runs of layers in their order, each of one layer or more, so that as little as possible passes between
/// them: Alpa's clustering of operators (Zheng et al., OSDI 2022, section 5.2). Least is the largest number
/// of bytes that a run reads from runs before it; then their sum; then the sum of the squares of the runs'
/// times. No run of several layers takes `tolerance` times longer than the average or more; where that can't
/// be, the tolerance is doubled until it can.
///
/// By layer its cluster, from 0; `clusters` of them, or as many as can be. `together`: lists of layers that
/// no two clusters share. What they don't allow to be cut counts as one layer. InternalError for less than
/// one cluster or layer, or a tolerance of 0 or less.
std::vector<std::int32_t> cluster_layers(const LayerGraph& graph, std::int32_t clusters,
                                         const std::vector<std::vector<std::int32_t>>& together = {},
                                         double tolerance = 0.5);

/// Each cluster as one layer: times and parameters of its layers together, and as its output what other
/// clusters read of it, or nobody.
LayerGraph clustered(const LayerGraph& graph, const std::vector<std::int32_t>& cluster_of);

/// What the run of layers [first, last) reads of layers before it, each output once.
Bytes read_from_before(const LayerGraph& graph, std::int32_t first, std::int32_t last);

}  // namespace pipesim

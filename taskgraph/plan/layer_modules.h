#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/runtime/cuda_graphs.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {

/// Finds the modules of layers by what their operators do, so that imported models have them as well:
/// attention, what lies between the first products and attention where there are two in a row (latents), what
/// leads from a norm back to the residual stream, and dispatch and combine of experts.
///
/// `layer_of`: layers_of() of the graph. Return segments by operator, each layer's modules with numbers of
/// their own, or kNoSegment.
std::vector<std::int32_t> module_segments(const OperatorGraph& graph, const Recompute& recompute,
                                          const std::vector<std::int32_t>& layer_of);
/// Returns those of Kind::Operators.
std::vector<std::int32_t> operator_segments(const OperatorGraph& graph,
                                            const std::vector<std::int32_t>& layer_of);

/// Returns the number of the CUDA graph that launches each operator, one for each layer that has such
/// modules, or kNoSegment.
std::vector<std::int32_t> graphed_segments(const OperatorGraph& graph, CudaGraphs graphs,
                                           const std::vector<std::int32_t>& layer_of);

/// Returns the recomputation without the modules that no layer has, or none where it has no others.
Recompute with_modules_of(const OperatorGraph& graph, Recompute recompute);
/// Returns the first module that no layer has; nothing where all are somewhere.
std::optional<RecomputeModule> missing_module(const OperatorGraph& graph, const Recompute& recompute,
                                              const std::vector<std::int32_t>& layer_of);
/// "attention", "a feed-forward part without experts", …: what a message calls the module.
std::string_view described(RecomputeModule module);

}  // namespace pipesim

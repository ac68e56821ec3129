#pragma once

#include "costmodel/cost_model.h"
#include "search/baselines/placement.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// See baseline_names().
Strategy expert_strategy(const OperatorGraph& graph, const CostModel& costs);

/// Data-parallel; but where linear layers hold most of the weights, they and the operators behind them are
/// split by output, so that their activations travel instead of their gradients ("one weird trick").
Strategy convolution_expert(const OperatorGraph& graph, const CostModel& costs);

/// Layers on the devices of a node, the batch over the nodes.
Strategy recurrent_expert(const OperatorGraph& graph, const CostModel& costs);

/// Tensor-parallel over as many devices of a node as the attention heads allow, the batch over groups of
/// them: projections by heads, output projection and second feed-forward matrix by their inputs, word
/// embedding, projection and loss by vocabulary, experts over the group; norms, residuals, dropout and
/// routers are copied within the group.
Strategy transformer_expert(const OperatorGraph& graph, const CostModel& costs);
/// The same on the rows of a mesh: each is a group. Configs may be illegal where the mesh suits the model
/// badly.
Strategy tensor_parallel_strategy(const OperatorGraph& graph, const DeviceMesh& mesh);

}  // namespace pipesim

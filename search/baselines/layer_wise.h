#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// See baseline_names().
Strategy single_device_strategy(const OperatorGraph& graph, const CostModel& costs);
Strategy data_parallel_strategy(const OperatorGraph& graph, const CostModel& costs);
Strategy model_parallel_strategy(const OperatorGraph& graph, const CostModel& costs);

/// The layer of every operator, numbered in the order of their first operators: a layer is an operator with
/// weights and the operators without weights that follow it; also all that share a weight (the steps of an
/// unrolled network); or not, with Apart.
enum class SharedWeights : std::uint8_t { Join, Apart };
std::vector<std::size_t> layer_numbers(const OperatorGraph& graph, SharedWeights shared);
/// Forward and backward of one operator, unsplit.
Seconds compute_time(const OperatorGraph& graph, const Operator& op, const CostModel& costs, DeviceId device);

/// For every operator a position in `devices`, so that each device gets a run of consecutive layers and the
/// busiest has as little to compute as possible. What shares a weight is one layer.
std::vector<std::size_t> layer_wise_positions(const OperatorGraph& graph, const CostModel& costs,
                                              std::span<const DeviceId> devices);

}  // namespace pipesim

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

/// The layer of every operator; layers are numbered in the order of their first operators. A layer is an
/// operator with weights and the operators without weights that follow it. With Join, operators that share a
/// weight (the steps of an unrolled network) are one layer; with Apart they are not.
enum class SharedWeights : std::uint8_t { Join, Apart };
std::vector<std::size_t> layer_numbers(const OperatorGraph& graph, SharedWeights shared);
/// Forward and backward of one operator, unsplit.
Seconds compute_time(const OperatorGraph& graph, const Operator& op, const CostModel& costs, DeviceId device);

/// By operator, its position in `devices`. Each device gets a run of consecutive layers, so that the busiest
/// device has as little to compute as possible. Operators that share a weight are one layer.
std::vector<std::size_t> layer_wise_positions(const OperatorGraph& graph, const CostModel& costs,
                                              std::span<const DeviceId> devices);

}  // namespace pipesim

#pragma once

#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "taskgraph/plan.h"

namespace pipesim {

/// See baseline_names().
Strategy single_device_strategy(const OperatorGraph& graph, const CostModel& costs);
Strategy data_parallel_strategy(const OperatorGraph& graph, const CostModel& costs);
Strategy model_parallel_strategy(const OperatorGraph& graph, const CostModel& costs);

/// For every operator a position in `devices`, so that each device gets a run of consecutive layers and the
/// busiest has as little to compute as possible. A layer is what shares a weight (the steps of an unrolled
/// network), with the operators without weights that follow it; layers are in the order of their first
/// operators.
std::vector<std::size_t> layer_wise_positions(const OperatorGraph& graph, const CostModel& costs,
                                              std::span<const DeviceId> devices);

}  // namespace pipesim

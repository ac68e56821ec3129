#pragma once

#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// The plan's strategy with as many copies of it on idle devices as there is room for. Each copy computes the
/// same shards at the same time (ParallelConfig::replicas), so that tasks are measured beside neighbours that
/// do the same. Returns the strategy unchanged when less than half of the devices is idle, and for pipelines,
/// whose stages determine what runs at the same time.
Strategy side_by_side(const OperatorGraph& graph, const Topology& topology, const Plan& plan);

}  // namespace pipesim

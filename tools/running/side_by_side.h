#pragma once

#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// The strategy of a plan, and copies of it on devices that it leaves idle, as many as there is room for:
/// each computes the same shards at the same time (ParallelConfig::replicas), so that they are measured
/// beside neighbours that do what they do. The strategy itself where less than half of the devices is idle,
/// and of pipelines, whose stages say what runs at the same time.
Strategy side_by_side(const OperatorGraph& graph, const Topology& topology, const Plan& plan);

}  // namespace pipesim

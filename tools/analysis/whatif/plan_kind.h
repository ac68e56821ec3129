#pragma once

#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// The kind of a plan, for saying where kinds change: "single device"; "data-parallel" (every operator is
/// split by samples alone, all of them are copies of each other); "straight pipeline" (every stage on a
/// device of its own); "hybrid pipeline" (stages of several devices); "operator-parallel". Of models that
/// recipes suit, the degrees above 1 but dp, and how state is sharded: "tp4,pp2,zero1".
std::string kind_of_plan(const OperatorGraph& graph, const Strategy& strategy, const PlanOptions& options,
                         const Topology& topology);

}  // namespace pipesim

#pragma once

#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/cli/base/streams.h"
#include "topologies/topology.h"

namespace pipesim {

/// A plan that a command has made: written to the file of --output ("": none), and given to the caller.
void give_plan(const Streams& streams, const std::string& file, const Plan& plan, const OperatorGraph& graph,
               const Topology& topology);

}  // namespace pipesim

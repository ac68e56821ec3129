#pragma once

#include <string>

#include "executor/run/execution.h"
#include "models/operator_graph.h"
#include "sim/timeline.h"
#include "taskgraph/expansion/task_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// Two timelines of one step as a Chrome trace: for every device a process with what was predicted, and one
/// with what its threads did. A collective's measured slice begins when the device came to it, so it shows
/// the wait for others.
std::string execution_trace(const TaskGraph& tasks, const Timeline& predicted, const StepRecord& measured,
                            const OperatorGraph& graph, const Topology& topology);

}  // namespace pipesim

#pragma once

#include <iosfwd>

#include "taskgraph/task_graph.h"

namespace pipesim {

/// Writes the task graph in Graphviz' DOT language: compute tasks grouped by device, communication tasks as
/// ovals. The graph must have labels. InputError when the stream fails.
void write_dot(std::ostream& out, const TaskGraph& tasks, const OperatorGraph& graph,
               const Topology& topology);

}  // namespace pipesim

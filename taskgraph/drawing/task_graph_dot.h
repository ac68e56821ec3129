#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "taskgraph/expansion/task_graph.h"

namespace pipesim {

/// Writes the task graph in Graphviz' DOT language: compute tasks grouped by device, communication tasks as
/// ovals, each by its name. The graph must have labels. InputError when the stream fails.
void write_dot(std::ostream& out, const TaskGraph& tasks, const Topology& topology,
               const std::function<std::string(TaskId)>& name);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <string>

#include "sim/base/out_of_memory.h"
#include "taskgraph/expansion/task_graph.h"

namespace pipesim {

/// The error for a task graph that did not fit into memory. `so_far` is the part that was built.
OutOfMemory graph_too_large(const TaskGraph& so_far, std::int32_t microbatches, const Topology& topology);

/// Checks that all microbatches will fit, from the tasks of the first one; every microbatch has the same
/// number. InputError when there would be more tasks than a TaskId can number; OutOfMemory when memory would
/// not suffice.
void require_room(const TaskGraph& first, std::int32_t microbatches, const Topology& topology);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <string>

#include "sim/base/out_of_memory.h"
#include "taskgraph/expansion/task_graph.h"

namespace pipesim {

/// What to tell somebody whose task graph did not fit into memory, after so much of it was built.
OutOfMemory graph_too_large(const TaskGraph& so_far, std::int32_t microbatches, const Topology& topology);

/// Checks that all microbatches will fit, once the first of them is there; all have as many tasks. InputError
/// when there would be more tasks than a TaskId can number, OutOfMemory when memory would not suffice.
void require_room(const TaskGraph& first, std::int32_t microbatches, const Topology& topology);

}  // namespace pipesim

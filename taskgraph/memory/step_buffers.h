#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "taskgraph/memory/runtime_buffers.h"

namespace pipesim {

/// Lists what is there during the steps of each device's optimizer: copies of gradients
/// (Runtime::step_gradients) and what the optimizer's kernels make (Runtime::optimizer_kernel); and buckets
/// that are freed meanwhile (released_in_steps()). A step begins with the last of the device's updates, since
/// frameworks begin it when backward is through, and a timeline may have updates beside backward.
std::vector<RuntimeBuffer> step_buffers(const ExpandedStrategy& expanded, const TaskTimes& times);

/// Returns by version of the stage's weights the last of the first microbatches of each replica that uses it.
std::map<std::int32_t, std::vector<std::int32_t>> last_users(const PlanContents& contents, std::int32_t stage,
                                                             std::int32_t microbatches);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <vector>

#include "taskgraph/binding/backward_uses.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {

/// By tensor, whether a weight that a microbatch gathered for forward stays for backward: where the operators
/// between its last use in forward and its next use use fewer than `distance` elements of weights. Operators
/// count in the order in which a device without a pipeline runs them, those that run again once more, each
/// with all elements of its weights. So splits do not matter, though a framework that divides weights by
/// tensor parallelism counts only the device's parts.
///
/// This is what DeepSpeed does under stage3_max_reuse_distance (__params_to_release() in
/// deepspeed/runtime/zero/partitioned_param_coordinator.py). A weight that was released is gathered once for
/// the second run and backward here, also where so much lies between these two that DeepSpeed does it twice.
std::vector<bool> reused_weights(const OperatorGraph& graph, const BackwardUses& backward,
                                 const Recomputation& recomputation, std::int64_t distance);

}  // namespace pipesim

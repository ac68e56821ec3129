#pragma once

#include <cstdint>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

class StrategyExpander;

/// Makes the operators of a microbatch that run again (Recomputation) wait until backward reaches them; an
/// earlier second run would save no memory. The microbatch's operators and transfers must be the last tasks
/// added.
void add_recompute_gates(StrategyExpander& expander, const BoundStrategy& strategy, std::int32_t microbatch);

}  // namespace pipesim

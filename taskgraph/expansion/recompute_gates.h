#pragma once

#include <cstdint>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

class StrategyExpander;

/// Makes operators of the microbatch that are run again (Recomputation) wait until backward comes to them;
/// else memory would not fall. The microbatch's operators and transfers must be there, as the last ones.
void add_recompute_gates(StrategyExpander& expander, const BoundStrategy& strategy, std::int32_t microbatch);

}  // namespace pipesim

#pragma once

#include <vector>

#include "models/operator.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// Shards that differ along these factors hold different addends of what an operator makes of the use (an
/// output, or the gradient of an input or weight): the split factors that the tensor lacks as Summed, and for
/// a gradient those whose windows overlap (operator algebra, section 3).
std::vector<FactorIndex> addend_axes(const Operator& op, const TensorUse& use, const ParallelConfig& config);

}  // namespace pipesim

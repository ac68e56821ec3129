#pragma once

#include "executor/cpu/kernels/kernel.h"
#include "models/operator_graph.h"

namespace pipesim::cpu {

/// Where 16 bits are kept, sums in float32 come out the same in every order, and rounding of what is kept
/// makes the difference: a split run rounds more values than the unsplit one, and others. This changes each
/// element that `call` has made in `pass`, of a tensor of such a type, by a factor of up to 1 ± half the unit
/// roundoff, at random (Vignes, "A stochastic arithmetic for reliable scientific computation", 1993). The
/// same for the same tensor, pass, step and order of sums.
void round_otherwise(const ShardCall& call, Pass pass, const OperatorGraph& graph);

}  // namespace pipesim::cpu

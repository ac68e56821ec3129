#pragma once

#include "executor/cpu/kernels/kernel.h"
#include "models/operator_graph.h"

namespace pipesim::cpu {

/// Simulates different rounding for tensors of 16-bit types. Their float32 sums are the same in every order;
/// the difference comes from rounding the stored values, and a split run rounds more and other values than
/// the unsplit one. So this multiplies each element that `call` has made in `pass`, in a tensor of such a
/// type, by a random factor of up to 1 ± half the unit roundoff (Vignes, "A stochastic arithmetic for
/// reliable scientific computation", 1993). The factors are the same for the same tensor, pass, step and
/// order of sums.
void round_otherwise(const ShardCall& call, Pass pass, const OperatorGraph& graph);

}  // namespace pipesim::cpu

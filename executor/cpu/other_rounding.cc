#include "executor/cpu/other_rounding.h"

#include "executor/cpu/kernels/operands.h"
#include "executor/elements/rounding.h"
#include "sim/base/rng.h"

namespace pipesim::cpu {
namespace {

Rng stream_of(const ShardCall& call, Pass pass, TensorId tensor) {
  const StepContext& step = call.step;
  return Rng(step.seed)
      .split(tensor.index())
      .split(static_cast<std::uint64_t>(pass))
      .split(static_cast<std::uint64_t>(step.sums))
      .split(static_cast<std::uint64_t>(step.step * step.microbatches + step.microbatch));
}

}  // namespace

void round_otherwise(const ShardCall& call, Pass pass, const OperatorGraph& graph) {
  const bool forward = pass == Pass::Forward;
  for (std::size_t u = 0; u < call.op.uses.size(); ++u) {
    const TensorUse& use = call.op.uses[u];
    const DataType type = graph.tensor(use.tensor).type;
    const Piece& made = forward ? call.values[u] : call.gradients[u];
    if ((use.role == Role::Output) != forward || !made.floats || type == DataType::Float32) continue;
    Rng rng = stream_of(call, pass, use.tensor);
    for (float& x : floats_of(made)) x *= static_cast<float>(1 + unit_roundoff(type) * (rng.uniform() - 0.5));
  }
}

}  // namespace pipesim::cpu

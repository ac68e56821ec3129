#include "executor/gpu/steps/activation.h"

#include "executor/gpu/bodies/elementwise.h"

namespace pipesim::gpu {
std::size_t fused_saved_bytes(const Operator& op, std::int64_t elements) {
  return needs_input(fused_activation(op)) ? sizeof(float) * static_cast<std::size_t>(elements) : 0;
}

Floats kept_before_fused(const ShardCall& call) {
  if (!needs_input(fused_activation(call.op))) return {};
  return {call.saved.data(),
          stored_as(call.gradients.back().present() ? call.gradients.back().type : call.values.back().type)};
}

void apply_fused(const ShardCall& call) {
  const Activation activation = fused_activation(call.op);
  if (activation == Activation::None) return;
  const Piece& y = call.values.back();
  run_in_groups(call.stream, y.elements(),
                Activate{y.floats(), y.floats(), kept_before_fused(call), activation});
}

Floats gradient_before_fused(const ShardCall& call) {
  const Activation activation = fused_activation(call.op);
  const Piece& dy = call.gradients.back();
  if (activation == Activation::None) return dy.floats();
  const auto bytes = static_cast<std::size_t>(dy.elements() * bytes_per_element(dy.type));
  const Floats before{call.stream.scratch(bytes), stored_as(dy.type)};
  const Floats kept = needs_input(activation) ? kept_before_fused(call) : call.values.back().floats();
  run_in_groups(call.stream, dy.elements(), ActivationGradient{kept, dy.floats(), before, activation});
  return before;
}

}  // namespace pipesim::gpu

#include "models/backward_need.h"

namespace pipesim {

BackwardNeed backward_need(const OperatorGraph& graph, OperatorId id) {
  const Operator& op = graph.op(id);
  bool gradient_comes = false, input_wanted = false, weights = false;
  for (const TensorUse& use : op.uses) {
    gradient_comes |= use.role == Role::Output && graph.gets_gradient(use.tensor);
    input_wanted |= use.role == Role::Input && graph.wants_gradient(use.tensor);
    weights |= use.role == Role::Weight && graph.wants_gradient(use.tensor);
  }
  if (!gradient_comes) return {};
  const bool separate = weights && !op.flops_backward_weight.empty();
  return {input_wanted || (weights && !separate), separate};
}

}  // namespace pipesim

#pragma once

#include "models/operator_graph.h"

namespace pipesim {

/// The backward passes that an operator has. It has none when no gradient reaches it from the loss.
struct BackwardNeed {
  bool input_pass =
      false;  ///< computes the gradient of some input, or weight gradients with no pass of their own
  bool weight_pass = false;  ///< a separate pass computes the gradients of weights
};
BackwardNeed backward_need(const OperatorGraph& graph, OperatorId op);

}  // namespace pipesim

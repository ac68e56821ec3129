#pragma once

#include <functional>

#include "models/operator_graph.h"

namespace pipesim {

/// Looks for NaN in what a pass of an operator has computed: outputs of forward, gradients of its inputs and
/// weights of backward. `has_nan` tells whether the value (forward) or the gradient (backward) of a use has a
/// NaN; it is false where the use has neither. DeviceError that names the first tensor with a NaN.
void require_numbers(const OperatorGraph& graph, const Operator& op, Pass pass,
                     const std::function<bool(std::size_t use)>& has_nan);

}  // namespace pipesim

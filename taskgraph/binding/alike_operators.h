#pragma once

#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// By operator: the first operator that is alike, which means that bind() treats both the same. Alike
/// operators may differ in their names and in the tensors that they use, as long as these tensors have the
/// same type, and want and get gradients alike.
std::vector<OperatorId> first_alike(const OperatorGraph& graph);

}  // namespace pipesim

#pragma once

#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// By operator: the first one that is like it in all that bind() looks at. They may differ in their names and
/// in which tensors they use, as long as those are of one type and want and get gradients alike.
std::vector<OperatorId> first_alike(const OperatorGraph& graph);

}  // namespace pipesim

#pragma once

#include <set>
#include <string>

#include "models/operator_graph.h"

namespace pipesim {

/// Joins operators that frameworks write one by one and run as one kernel, or that a compiler joins:
///
/// - attention written out: softmax(q · kᵀ · factor + bias) · v over tensors [b, heads, length, width], with
///   the transposes around it and what is dropped of the softmax, as attention or biased_attention;
/// - an activation behind the only product or norm that it reads, as attribute "activation".
///
/// Results are the same but for what is dropped of a softmax, which fused attention does not drop. Tensors
/// that others read, and results of the graph, keep their names. `causal_masks`: inputs of the model that are
/// 0 where a key does not come after its query and −∞ elsewhere: attention that adds one is causal.
OperatorGraph fuse(const OperatorGraph& graph, const std::set<std::string>& causal_masks = {});

}  // namespace pipesim

#pragma once

#include <set>
#include <string>

#include "models/operator_graph.h"

namespace pipesim {

/// Joins operators that frameworks write one by one and run as one kernel, or that a compiler joins:
///
/// - functions of elements written out, as relu, relu6, gelu, quick_gelu, silu, mish, softplus, tanh,
///   sigmoid, hardsigmoid or hardswish, and functions of rows, as softmax, layer_norm or rms_norm. They are
///   recognised by their values, so the order of factors and the form of constants do not matter. "gelu"
///   stands for the form with erf and for the form with tanh: they differ by less than 5e-4, and cost the
///   same;
/// - a norm over a view [n, groups, …] of channels, as group_norm; factors and shifts that are parameters,
///   behind a norm that has none;
/// - attention written out: softmax(q · kᵀ · factor + bias) · v over tensors [b, heads, length, width], with
///   the transposes around it and what is dropped of the softmax, as attention or biased_attention;
/// - a parameter that is added to a linear or a convolution without a bias, as its bias;
/// - a mean squared error, and a binary cross entropy of a sigmoid, whose target comes in, as a loss;
/// - embedding and the sum or mean of a sample's rows, as embedding_bag;
/// - an activation behind the only product or norm that it reads, as attribute "activation".
///
/// Results are the same but for the two forms of gelu, for the epsilon of a norm (up to 1e-3), which backends
/// choose, and for what is dropped of a softmax, which fused attention does not drop. Tensors that others
/// read, and results of the graph, keep their names; so do weights, though one that was [1, c, 1, 1] becomes
/// [c]. `causal_masks`: inputs of the model that are 0 where a key does not come after its query and −∞
/// elsewhere: attention that adds one is causal.
OperatorGraph fuse(const OperatorGraph& graph, const std::set<std::string>& causal_masks = {});

}  // namespace pipesim

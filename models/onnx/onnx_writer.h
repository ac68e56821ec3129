#pragma once

#include <string>

#include "models/operator_graph.h"

namespace pipesim {

/// The forward pass as a serialised ONNX model (opset 17, IR version 8), all sizes fixed, with the shape of
/// every tensor of the graph.
///
/// - Nodes, values and initializers have the names of operators, tensors and weights; nodes and values that
///   an operator needs beside them are called "OPERATOR/TYPE". What several operators share, such as a causal
///   mask, is "shared/…".
/// - Weights have dims and a type, and their data in a file "weights.bin", which is not written.
/// - Inference: batch norm takes its running statistics, dropout drops nothing. In which type products
///   multiply and what is kept for backward is left out.
/// - Kinds that ONNX has nothing for (experts' dispatch and combine, selective scans, opaque and profiled
///   layers) are nodes of the domain "pipesim", with the kind as operator and its attributes.
std::string to_onnx(const OperatorGraph& graph);

}  // namespace pipesim

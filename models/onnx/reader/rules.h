#pragma once

#include <string>
#include <unordered_map>

#include "models/onnx/reader/node.h"

namespace pipesim {

/// Writes a node of the standard domain as operators, and gives its results. Returns false where that is not
/// possible: the node is opaque then, and operators that it wrote are left out.
using OnnxRule = bool (*)(OnnxNode&);
using OnnxRules = std::unordered_map<std::string, OnnxRule>;

OnnxRules element_rules();    ///< functions of elements, arithmetic
OnnxRules shape_rules();      ///< reshape, slice, gather, …
OnnxRules product_rules();    ///< matrix products, embeddings
OnnxRules image_rules();      ///< convolutions, pools, resizing
OnnxRules norm_rules();       ///< norms, softmax
OnnxRules reduction_rules();  ///< sums over dims, losses

/// Returns the rules of all families, by operator.
const OnnxRules& onnx_rules();

}  // namespace pipesim

#pragma once

#include <map>
#include <string>

#include "models/onnx/writer/onnx_operator.h"

namespace pipesim {

using OnnxKinds = std::map<std::string, void (*)(OnnxOperator&)>;

// How each kind of operator is written, by files. Kinds in none of them become nodes of pipesim's own domain.
OnnxKinds onnx_pointwise_kinds();
OnnxKinds onnx_product_kinds();
OnnxKinds onnx_attention_kinds();
OnnxKinds onnx_image_kinds();
OnnxKinds onnx_norm_kinds();
OnnxKinds onnx_shape_kinds();

}  // namespace pipesim

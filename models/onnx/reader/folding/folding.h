#pragma once

#include <optional>
#include <vector>

#include "models/onnx/reader/folding/constant.h"

namespace pipesim {

/// What a node of the standard domain computes from constants; `inputs` has nothing for those that are left
/// out. Nothing where this is no function of shapes, positions and masks, or where the result would have more
/// than 2²⁴ elements. `opset`: version of the standard domain.
std::optional<std::vector<OnnxConstant>> fold(const onnx::NodeProto& node, std::int64_t opset,
                                              const std::vector<const OnnxConstant*>& inputs);

}  // namespace pipesim

#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

#include "models/onnx/reader/folding/constant.h"

namespace pipesim {

/// Shape and element type (onnx::TensorProto::DataType) of a tensor; a dim that is not known is −1.
struct OnnxType {
  int element = onnx::TensorProto::UNDEFINED;
  std::optional<OnnxShape> shape;

  [[nodiscard]] bool complete() const;  ///< all dims known
};

/// Returns nothing for kinds other than tensors (a sequence, a map).
std::optional<OnnxType> onnx_type(const onnx::TypeProto& type);

/// An input of a node, as shape inference sees it.
struct InferredInput {
  bool given = true;
  OnnxType type;
  const OnnxConstant* constant = nullptr;
};

/// Types of a node's results by the inference rules of the ONNX library, for nodes of its domains; `opset`:
/// version of the node's domain, the library's newest where it is newer. Nothing where the library does not
/// know the operator. InputError with what the library says where inputs do not fit.
std::optional<std::vector<OnnxType>> infer_types(const onnx::NodeProto& node, std::int64_t opset,
                                                 const std::vector<InferredInput>& inputs);

/// The newest version of the standard domain whose operators the library knows.
std::int64_t newest_known_opset();

}  // namespace pipesim

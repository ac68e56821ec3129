#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "models/onnx/onnx_model.h"
#include "models/onnx/reader/shape_inference.h"
#include "sim/base/data_type.h"

namespace pipesim {

/// Lengths of the dims of a file's inputs, and what follows from them for the model.
class GraphSizes {
 public:
  /// InputError where `bound` lacks a size, or has one that the file does not name.
  GraphSizes(const onnx::GraphProto& graph, const std::string& source, const std::vector<NamedSize>& bound,
             const ConstantReadings& readings);

  /// The inputs that are no initializers.
  struct Input {
    std::string name;
    OnnxType type;
  };
  [[nodiscard]] const std::vector<Input>& inputs() const { return inputs_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] DataType data_type() const { return type_; }
  /// The type, with lengths where its dims have names.
  [[nodiscard]] std::optional<OnnxType> resolved(const onnx::TypeProto& type) const;
  /// "resnet50:batch=32": the file's name and all that is bound.
  [[nodiscard]] const std::string& model_name() const { return name_; }

 private:
  std::unordered_map<std::string, std::int64_t> lengths_;
  std::vector<Input> inputs_;
  std::int64_t batch_ = 1;
  DataType type_ = DataType::Float32;
  std::string name_;
};

OnnxSizes sizes_of(const onnx::GraphProto& graph);

}  // namespace pipesim

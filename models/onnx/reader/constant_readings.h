#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "models/onnx/reader/folding/constant.h"

namespace pipesim {

/// What nodes read a constant of floating-point numbers as; of several readers the last of these counts.
enum class ConstantReading : std::uint8_t {
  None,     ///< no node reads it
  Values,   ///< settings, such as the scales of Resize, and what such are computed from
  Numbers,  ///< beside integers that come in, such as positions
  Operand,  ///< beside tensors of the model: a mask, a table, numbers that inputs are normed with
  Term,     ///< the same, added to what nodes compute, or multiplied with it, as biases are
  Part,     ///< a weight is computed from it
  Weight    ///< in the place of a weight or bias: of a convolution, a product, a norm, a table
};

/// Says of each constant of a file whether it is learned. That follows from the nodes that read it, also
/// through nodes that read constants only, such as Transpose and Reshape.
class ConstantReadings {
 public:
  using Nodes = std::unordered_set<const onnx::NodeProto*>;

  /// `needed`: the nodes of the graph that count.
  ConstantReadings(const onnx::ModelProto& model, const Nodes& needed);

  /// Goes on within a function, or outside of all with nullptr; returns where it was.
  const onnx::FunctionProto* enter(const onnx::FunctionProto* function);

  [[nodiscard]] ConstantReading of(const std::string& name) const;

  enum class Kind : std::uint8_t { Initializer, Node };
  /// Whether it is a weight. `known` are its values, or nullptr. Where readers leave it open, initializers
  /// are weights. Constant nodes are, where the file has no weights among initializers; else those terms are
  /// whose elements lie along one dim.
  [[nodiscard]] bool learned(const std::string& name, const OnnxShape& shape, const OnnxConstant* known,
                             Kind kind) const;

 private:
  struct Scope {
    std::unordered_map<std::string, ConstantReading> readings;
    std::unordered_set<std::string> fixed;  ///< constants, and what is made of them alone
    std::unordered_set<std::string> plain;  ///< made of integers that come in, and of constants
    std::unordered_set<std::string> given;  ///< come in
  };

  static void find_makers(Scope& scope, const onnx::NodeProto& node);
  static void add_constants(Scope& scope, const onnx::GraphProto& graph);
  void find_readings(Scope& scope, const onnx::NodeProto& node);
  const Scope& of_function(const onnx::FunctionProto& function);
  void look_at_initializers(const onnx::GraphProto& graph);

  Scope graph_;
  std::unordered_map<const onnx::FunctionProto*, Scope> functions_;
  std::unordered_map<std::string, const onnx::FunctionProto*> by_name_;
  const onnx::FunctionProto* within_ = nullptr;
  bool initializers_learn_ = false;
};

}  // namespace pipesim

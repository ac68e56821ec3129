#pragma once

#include <string>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// Builds an OperatorGraph operator by operator. Each kind of operator infers its shapes, makes its weights and
/// factors; wrong shapes or attributes throw InputError with the operator's name and both shapes.
class GraphBuilder {
 public:
  GraphBuilder(std::string name, std::int64_t batch, DataType type = DataType::Float32);

  /// A data input of the model (no gradient).
  TensorId data(const std::string& name, std::vector<std::int64_t> shape);
  TensorId data(const std::string& name, std::vector<std::int64_t> shape, DataType type);

  /// Adds an operator of a registered kind (models/operator_kind.h) and returns its outputs.
  /// `weights`: names of the weights in the kind's order; "" or a shorter list: "<name>.<weight>". A name that exists
  /// already shares that weight; its shape must fit.
  std::vector<TensorId> add_all(const std::string& kind, const std::string& name, const std::vector<TensorId>& inputs,
                                const Attributes& attributes = {}, const std::vector<std::string>& weights = {});
  /// The same for kinds with one output.
  TensorId add(const std::string& kind, const std::string& name, const std::vector<TensorId>& inputs,
               const Attributes& attributes = {}, const std::vector<std::string>& weights = {});

  /// Operators added from here on belong to repeat `index` of the block `prefix`: names start with
  /// "<prefix><index>." and Operator::repeat is "<prefix>#.<name>". Scopes nest; end with end_repeat().
  void begin_repeat(const std::string& prefix, std::int64_t index);
  void end_repeat();

  [[nodiscard]] const std::vector<std::int64_t>& shape(TensorId id) const;
  [[nodiscard]] OperatorGraph build();

 private:
  std::string name_;
  std::int64_t batch_;
  DataType type_;
  std::vector<Tensor> tensors_;
  std::vector<Operator> operators_;
  std::vector<std::string> name_prefixes_, repeat_prefixes_;
};

}  // namespace pipesim

#pragma once

#include <string>
#include <vector>

#include "models/onnx/writer/onnx_draft.h"
#include "models/operator_kind.h"

namespace pipesim {

using OnnxDims = std::vector<std::int64_t>;

/// An operator of the model while its nodes are written.
class OnnxOperator {
 public:
  OnnxOperator(const OperatorGraph& model, const Operator& op, OnnxDraft& draft);

  const Operator& op;
  OnnxDraft& draft;

  [[nodiscard]] std::size_t inputs() const { return inputs_.size(); }
  [[nodiscard]] const std::string& input(std::size_t i) const { return inputs_[i]->name; }
  [[nodiscard]] const OnnxDims& shape(std::size_t input) const { return inputs_[input]->shape; }
  [[nodiscard]] DataType input_type(std::size_t input) const { return inputs_[input]->type; }
  /// Weights, then states.
  [[nodiscard]] std::size_t weights() const { return weights_.size(); }
  [[nodiscard]] const std::string& weight(std::size_t i) const { return weights_[i]->name; }
  [[nodiscard]] const OnnxDims& weight_shape(std::size_t i) const { return weights_[i]->shape; }
  [[nodiscard]] const OnnxDims& result_shape(std::size_t i = 0) const { return results_[i]->shape; }
  [[nodiscard]] std::size_t results() const { return results_.size(); }
  /// The type in which it computes: that of its first input, or of its result where the input is an index.
  [[nodiscard]] DataType type() const;

  // Attributes, with the kind's defaults.
  [[nodiscard]] std::int64_t integer(const std::string& attribute) const;
  [[nodiscard]] bool flag(const std::string& attribute) const { return integer(attribute) != 0; }
  [[nodiscard]] double real(const std::string& attribute) const;
  [[nodiscard]] std::string word(const std::string& attribute) const;
  [[nodiscard]] OnnxDims list(const std::string& attribute) const;

  /// Adds a node and returns its result.
  std::string add(const std::string& type, const std::vector<std::string>& values,
                  const Attributes& attributes = {});
  std::vector<std::string> add_several(const std::string& type, const std::vector<std::string>& values,
                                       std::size_t count, const Attributes& attributes = {});
  std::string number(double value) { return draft.number(value, type()); }

  std::string reshape(const std::string& value, const OnnxDims& to);
  std::string transpose(const std::string& value, const OnnxDims& order);
  /// New dims of length 1, at these places of the result.
  std::string unsqueeze(const std::string& value, const OnnxDims& axes);
  std::string cast(const std::string& value, DataType to);
  std::string dropped(const std::string& value, double rate);
  /// `function`: a word of the attribute "activation".
  std::string activation(const std::string& value, const std::string& function);

  /// Makes `value` its result `i`. If no node of this operator makes the value, a node copies it.
  void give(const std::string& value, std::size_t i = 0);
  /// The same behind the function that its attribute "activation" names.
  void give_activated(const std::string& value) { give(activation(value, word("activation"))); }
  /// A node of pipesim's own domain.
  void give_as_own_kind();

 private:
  [[nodiscard]] AttributeValue value_of(const std::string& attribute) const;

  std::vector<const Tensor*> inputs_, weights_, results_;
  int first_node_;
};

/// Multiplies the dims [begin, end).
inline std::int64_t product_of_dims(const OnnxDims& dims, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product *= dims[i];
  return product;
}

}  // namespace pipesim

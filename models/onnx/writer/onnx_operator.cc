#include "models/onnx/writer/onnx_operator.h"

#include <algorithm>
#include <numbers>
#include <set>

#include "models/operator_draft.h"

namespace pipesim {

OnnxOperator::OnnxOperator(const OperatorGraph& model, const Operator& described, OnnxDraft& file)
    : op(described), draft(file), first_node_(file.nodes()) {
  for (const TensorUse& use : op.uses) {
    const Tensor* tensor = &model.tensor(use.tensor);
    switch (use.role) {
      case Role::Input:
      case Role::Index:
        inputs_.push_back(tensor);
        break;
      case Role::Weight:
      case Role::State:
        weights_.push_back(tensor);
        break;
      case Role::Output:
        results_.push_back(tensor);
        break;
    }
  }
}

DataType OnnxOperator::type() const {
  return !inputs_.empty() && is_floating(inputs_[0]->type) ? inputs_[0]->type : results_[0]->type;
}

AttributeValue OnnxOperator::value_of(const std::string& attribute) const {
  const auto found = op.attributes.find(attribute);
  if (found != op.attributes.end()) return found->second;
  return operator_kind(op.kind).find_attribute(attribute)->fallback.value();
}

std::int64_t OnnxOperator::integer(const std::string& attribute) const {
  return std::get<std::int64_t>(value_of(attribute));
}

double OnnxOperator::real(const std::string& attribute) const {
  return std::get<double>(value_of(attribute));
}

std::string OnnxOperator::word(const std::string& attribute) const {
  return std::get<std::string>(value_of(attribute));
}

OnnxDims OnnxOperator::list(const std::string& attribute) const {
  return std::get<OnnxDims>(value_of(attribute));
}

std::string OnnxOperator::add(const std::string& type, const std::vector<std::string>& values,
                              const Attributes& attributes) {
  // They have no bfloat16 in ONNX.
  static const std::set<std::string> in_float32 = {
      "AveragePool", "Conv",      "ConvTranspose",         "Cos",
      "Einsum",      "Elu",       "GlobalAveragePool",     "GlobalMaxPool",
      "HardSigmoid", "HardSwish", "InstanceNormalization", "MaxPool",
      "Sin",         "Softplus"};
  if (this->type() != DataType::BFloat16 || !in_float32.contains(type))
    return draft.add(op.name, type, values, attributes).front();
  std::vector<std::string> wide;
  for (const std::string& value : values) wide.push_back(cast(value, DataType::Float32));
  return cast(draft.add(op.name, type, wide, attributes).front(), DataType::BFloat16);
}

std::vector<std::string> OnnxOperator::add_several(const std::string& type,
                                                   const std::vector<std::string>& values, std::size_t count,
                                                   const Attributes& attributes) {
  return draft.add(op.name, type, values, attributes, count);
}

std::string OnnxOperator::reshape(const std::string& value, const OnnxDims& to) {
  return add("Reshape", {value, draft.integers(to)});
}

std::string OnnxOperator::transpose(const std::string& value, const OnnxDims& order) {
  return add("Transpose", {value}, {{"perm", order}});
}

std::string OnnxOperator::unsqueeze(const std::string& value, const OnnxDims& axes) {
  return add("Unsqueeze", {value, draft.integers(axes)});
}

std::string OnnxOperator::cast(const std::string& value, DataType to) {
  return add("Cast", {value}, {{"to", onnx_type(to)}});
}

std::string OnnxOperator::dropped(const std::string& value, double rate) {
  return add("Dropout", {value, draft.number(rate, DataType::Float32)});
}

std::string OnnxOperator::activation(const std::string& value, const std::string& function) {
  if (function == "relu") return add("Relu", {value});
  if (function == "tanh") return add("Tanh", {value});
  if (function == "sigmoid") return add("Sigmoid", {value});
  if (function == "silu") return add("Mul", {value, add("Sigmoid", {value})});
  if (function == "relu2") {
    const std::string root = add("Relu", {value});
    return add("Mul", {root, root});
  }
  if (function == "gelu") {
    const std::string erf = add("Erf", {add("Div", {value, number(std::numbers::sqrt2)})});
    return add("Mul", {add("Mul", {value, add("Add", {erf, number(1)})}), number(0.5)});
  }
  return value;
}

void OnnxOperator::give(const std::string& value, std::size_t i) {
  const bool own = std::ranges::none_of(inputs_, [&](const Tensor* t) { return t->name == value; }) &&
                   std::ranges::none_of(weights_, [&](const Tensor* t) { return t->name == value; }) &&
                   value.starts_with(op.name + "/");
  const std::string made = own ? value : add("Identity", {value});
  draft.rename(first_node_, made, results_[i]->name, i == 0 ? op.name : "");
}

void OnnxOperator::give_as_own_kind() {
  const auto names = [](const std::vector<const Tensor*>& tensors) {
    std::vector<std::string> list;
    for (const Tensor* tensor : tensors) list.push_back(tensor->name);
    return list;
  };
  std::vector<std::string> read = names(inputs_);
  for (const std::string& weight : names(weights_)) read.push_back(weight);
  draft.add_own(op.name, op.kind, read, names(results_), op.attributes);
}

}  // namespace pipesim

#include "models/onnx/reader/graph_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_set>

#include "models/onnx/reader/folding/attributes.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

using onnx::GraphProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

std::vector<const ValueInfoProto*> true_inputs(const GraphProto& graph) {
  std::unordered_set<std::string> weights;
  for (const TensorProto& tensor : graph.initializer()) weights.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) weights.insert(tensor.values().name());
  std::vector<const ValueInfoProto*> inputs;
  for (const ValueInfoProto& input : graph.input()) {
    if (!weights.contains(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

/// What a dim without a length is called; "" for one that has it.
std::string size_name(const ValueInfoProto& input, int dim) {
  const auto& one = input.type().tensor_type().shape().dim(dim);
  if (one.has_dim_value()) return "";
  return one.dim_param().empty() ? fmt::format("{}.{}", input.name(), dim) : one.dim_param();
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
}

/// ", which node "n" (Op) reads,"
std::string reader_of(const GraphProto& graph, const std::string& name) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (std::ranges::find(node.input(), name) != node.input().end())
      return fmt::format(", which node \"{}\" ({}) reads,", node.name(), node.op_type());
  }
  return "";
}

DataType type_of_weights(const GraphProto& graph, const std::vector<GraphSizes::Input>& inputs,
                         const ConstantReadings& readings) {
  std::array<double, 4> elements{};  // float32, float16, bfloat16, float64
  const auto place = [](int type) {
    switch (type) {
      case TensorProto::FLOAT:
        return 0;
      case TensorProto::FLOAT16:
        return 1;
      case TensorProto::BFLOAT16:
        return 2;
      case TensorProto::DOUBLE:
        return 3;
      default:
        return -1;
    }
  };
  const auto count = [&](int type, const OnnxShape& shape) {
    const int at = place(type);
    const auto size = onnx_elements(shape);
    if (at >= 0 && size) elements[static_cast<std::size_t>(at)] += static_cast<double>(*size);
  };
  const auto count_constant = [&](const std::string& name, const TensorProto& tensor) {
    if (readings.of(name) > ConstantReading::Values)
      count(tensor.data_type(), {tensor.dims().begin(), tensor.dims().end()});
  };
  for (const TensorProto& tensor : graph.initializer()) count_constant(tensor.name(), tensor);
  for (const onnx::NodeProto& node : graph.node()) {
    const auto* value = node.op_type() == "Constant" ? find_attribute(node, "value") : nullptr;
    if (value != nullptr && node.output_size() == 1) count_constant(node.output(0), value->t());
  }
  if (std::ranges::all_of(elements, [](double n) { return n == 0; })) {
    for (const GraphSizes::Input& input : inputs) count(input.type.element, *input.type.shape);
  }
  constexpr std::array types{DataType::Float32, DataType::Float16, DataType::BFloat16, DataType::Float64};
  return types[static_cast<std::size_t>(std::ranges::max_element(elements) - elements.begin())];
}

}  // namespace

OnnxSizes sizes_of(const GraphProto& graph) {
  OnnxSizes sizes;
  bool first = true;
  for (const ValueInfoProto* input : true_inputs(graph)) {
    const auto& shape = input->type().tensor_type().shape();
    for (int dim = 0; dim < shape.dim_size(); ++dim) add_once(sizes.names, size_name(*input, dim));
    if (first && shape.dim_size() > 0) {
      sizes.batch = size_name(*input, 0);
      if (sizes.batch.empty()) sizes.samples = shape.dim(0).dim_value();
    }
    first = first && shape.dim_size() == 0;
  }
  return sizes;
}

GraphSizes::GraphSizes(const GraphProto& graph, const std::string& source,
                       const std::vector<NamedSize>& bound, const ConstantReadings& readings)
    : name_(std::filesystem::path(source).stem().string()) {
  const OnnxSizes own = sizes_of(graph);
  std::vector<std::string> others;  // of results, which a file may name, too
  for (const auto* list : {&graph.value_info(), &graph.output()}) {
    for (const ValueInfoProto& value : *list) {
      for (const auto& dim : value.type().tensor_type().shape().dim()) add_once(others, dim.dim_param());
    }
  }
  for (const NamedSize& size : bound) {
    const auto knows = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, size.name) != names.end();
    };
    if (!knows(own.names) && !knows(others)) {
      throw InputError(fmt::format(
          "{}: no dimension is named \"{}\"{}, allowed: {}", source, size.name,
          did_you_mean(size.name, own.names),
          own.names.empty() ? "none, all have a length" : list_names(own.names, own.names.size())));
    }
    lengths_[size.name] = size.value;
    name_ += fmt::format("{}{}={}", &size == bound.data() ? ":" : ",", size.name, size.value);
  }
  bool first = true;
  for (const ValueInfoProto* input : true_inputs(graph)) {
    if (!input->type().has_tensor_type() || !input->type().tensor_type().has_shape()) {
      throw InputError(
          fmt::format("{}: input \"{}\"{} {}", source, input->name(), reader_of(graph, input->name()),
                      input->type().has_tensor_type() ? "has no shape; write its dimensions into the file"
                                                      : "is no tensor, which is all that can be read"));
    }
    const auto& shape = input->type().tensor_type().shape();
    OnnxType type{input->type().tensor_type().elem_type(), OnnxShape()};
    for (int dim = 0; dim < shape.dim_size(); ++dim) {
      const std::string name = size_name(*input, dim);
      if (!name.empty() && !lengths_.contains(name)) {
        throw InputError(fmt::format(
            "{}: dimension {} of input \"{}\" has {}; set it: --set {}=N", source, dim, input->name(),
            shape.dim(dim).dim_param().empty() ? "no length"
                                               : fmt::format("the name \"{}\" and no length", name),
            name));
      }
      const std::int64_t length = name.empty() ? shape.dim(dim).dim_value() : lengths_.at(name);
      if (length < 0 || length > kLargestSize) {
        throw InputError(fmt::format("{}: dimension {} of input \"{}\" has length {}, allowed: 1 to {}",
                                     source, dim, input->name(), length, kLargestSize));
      }
      type.shape->push_back(length);
    }
    if (first && !type.shape->empty()) {
      batch_ = std::max<std::int64_t>(1, type.shape->front());
      first = false;
    }
    inputs_.push_back({input->name(), std::move(type)});
  }
  type_ = type_of_weights(graph, inputs_, readings);
}

std::optional<OnnxType> GraphSizes::resolved(const onnx::TypeProto& type) const {
  auto result = onnx_type(type);
  if (!result || !result->shape) return result;
  const auto& shape = type.tensor_type().shape();
  for (std::size_t i = 0; i < result->shape->size(); ++i) {
    if ((*result->shape)[i] >= 0) continue;
    const auto known = lengths_.find(shape.dim(static_cast<int>(i)).dim_param());
    if (known != lengths_.end()) (*result->shape)[i] = known->second;
  }
  return result;
}

}  // namespace pipesim

#include "models/onnx/reader/graph_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/folding/folding.h"
#include "models/onnx/reader/onnx_file.h"
#include "models/onnx/reader/operator_names.h"
#include "models/onnx/reader/rules.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

constexpr std::size_t kMostKept = 3U << 23U;  // elements of all constants that are computed

}  // namespace

OnnxReader::OnnxReader(const onnx::ModelProto& model, std::string source, const std::vector<NamedSize>& bound)
    : model_(model),
      source_(std::move(source)),
      needed_(needed_nodes(model.graph(), uses_)),
      readings_(model, needed_),
      sizes_(model.graph(), source_, bound, readings_),
      writer_(sizes_.model_name(), sizes_.batch(), sizes_.data_type()) {
  for (const auto& import : model.opset_import()) opsets_[import.domain()] = import.version();
  if (opsets_.contains("ai.onnx")) opsets_[""] = opsets_["ai.onnx"];
  for (const FunctionProto& function : model.functions())
    functions_[operator_name(function.domain(), function.name())] = &function;
  for (const auto* list : {&model.graph().value_info(), &model.graph().output()}) {
    for (const auto& value : *list) {
      if (auto type = sizes_.resolved(value.type())) told_[value.name()] = std::move(*type);
    }
  }
}

OnnxModel OnnxReader::read() {
  const GraphProto& graph = model_.graph();
  unread_ = uses_;
  read_inputs();
  read_initializers(graph);
  read_nodes(graph.node(), needed_);
  std::vector<TensorId> results;
  std::map<std::string, std::string> named;
  std::string without;
  for (const auto& output : graph.output()) {
    const auto found = values_.find(output.name());
    if (found == values_.end() || found->second.form == OnnxForm::None)
      throw InputError(
          fmt::format("{}: result \"{}\" is made by no node of the graph", source_, output.name()));
    if (found->second.form == OnnxForm::Tensor && writer_.maker(found->second.tensor) != nullptr) {
      results.push_back(found->second.tensor);
      named[output.name()] = writer_.tensor_name(found->second.tensor);
    } else {
      without = output.name();
    }
  }
  if (results.empty()) {
    std::string made;
    for (const NodeProto& node : graph.node()) {
      if (std::ranges::find(node.output(), without) != node.output().end())
        made = fmt::format(", of node \"{}\" ({}),", node.name(), operator_of(node));
    }
    throw InputError(fmt::format(
        "{}: there is nothing to run: result \"{}\"{} is made of constants, or of integers that come in",
        source_, without, made));
  }
  return {writer_.build(results), std::move(named), notes(results)};
}

void OnnxReader::read_inputs() {
  for (const GraphSizes::Input& input : sizes_.inputs()) {
    OnnxValue value;
    value.form = OnnxForm::Data;
    value.name = input.name;
    value.shape = *input.type.shape;
    value.type = input.type.element;
    const bool empty = std::ranges::find(value.shape, 0) != value.shape.end();
    if (is_floating_type(value.type) && !empty) {
      value.form = OnnxForm::Tensor;
      value.tensor = writer_.data(input.name, value.shape);
    }
    values_[input.name] = std::move(value);
  }
}

void OnnxReader::read_initializers(const GraphProto& graph) {
  constexpr auto kind = ConstantReadings::Kind::Initializer;
  for (const auto& sparse : graph.sparse_initializer()) {
    const std::string& name = sparse.values().name();
    values_[name] = constant_value(name, {sparse.dims().begin(), sparse.dims().end()},
                                   sparse.values().data_type(), std::nullopt, kind);
  }
  for (const TensorProto& tensor : graph.initializer()) {
    std::optional<OnnxConstant> constant;
    try {
      constant = constant_of(tensor);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", source_, error.what()));
    }
    values_[tensor.name()] = constant_value(tensor.name(), {tensor.dims().begin(), tensor.dims().end()},
                                            tensor.data_type(), std::move(constant), kind);
  }
}

OnnxValue OnnxReader::constant_value(const std::string& name, OnnxShape shape, int type,
                                     std::optional<OnnxConstant> constant,
                                     ConstantReadings::Kind kind) const {
  OnnxValue value;
  value.name = prefix_ + name;
  value.shape = std::move(shape);
  value.type = type;
  const bool learned =
      is_floating_type(type) && readings_.learned(name, value.shape, constant ? &*constant : nullptr, kind);
  value.form = learned ? OnnxForm::Weight : constant ? OnnxForm::Constant : OnnxForm::Data;
  // Small weights may be settings as well.
  constexpr std::size_t most_values = 4096;
  if (constant && (!learned || constant->size() <= most_values))
    value.constant = std::make_shared<OnnxConstant>(std::move(*constant));
  return value;
}

void OnnxReader::read_nodes(const google::protobuf::RepeatedPtrField<NodeProto>& nodes,
                            const std::unordered_set<const NodeProto*>& needed) {
  for (const NodeProto& node : nodes) {
    if (!needed.contains(&node)) continue;
    read_node(node);
    if (depth_ == 0) forget_inputs(node);
  }
}

void OnnxReader::forget_inputs(const NodeProto& node) {
  for (const std::string& name : node.input()) {
    const auto left = unread_.find(name);
    if (left == unread_.end() || --left->second > 0) continue;
    const auto value = values_.find(name);
    if (value == values_.end() || value->second.form != OnnxForm::Constant) continue;
    folded_elements_ -= std::min(folded_elements_, value->second.constant->size());
    values_.erase(value);
  }
}

void OnnxReader::read_node(const NodeProto& node) {
  const std::string& op = node.op_type();
  try {
    if (is_standard(node) && op == "If") return read_condition(node);
    if (is_standard(node) && (op == "Loop" || op == "Scan" || op == "SequenceMap"))
      throw InputError("loops cannot be read; allowed: a graph whose steps are written out");
    if (is_standard(node) && op == "Constant") return read_constant(node);
    const std::vector<OnnxValue> inputs = inputs_of(node);
    if (read_shape(node, inputs) || read_folded(node, inputs) || read_data(node, inputs) ||
        read_weight_shape(node, inputs))
      return;
    std::string why_not;
    if (read_by_rule(node, inputs, why_not) || read_own_kind(node, inputs) || read_function(node, inputs))
      return;
    read_opaque(node, inputs, why_not);
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.starts_with(source_ + ": ")) throw;
    fail(node, what);
  }
}

void OnnxReader::read_constant(const NodeProto& node) {
  if (node.output_size() != 1) throw InputError("a constant needs one result");
  const std::string& name = node.output(0);
  constexpr auto kind = ConstantReadings::Kind::Node;
  if (const auto* integer = find_attribute(node, "value_int")) {
    give_constant(name, integer_constant({}, {integer->i()}));
  } else if (const auto* integers = find_attribute(node, "value_ints")) {
    give_constant(
        name, integer_constant({integers->ints_size()}, {integers->ints().begin(), integers->ints().end()}));
  } else if (const auto* real = find_attribute(node, "value_float")) {
    const OnnxConstant constant{{}, TensorProto::FLOAT, std::vector<double>{static_cast<double>(real->f())}};
    values_[name] = constant_value(name, {}, TensorProto::FLOAT, constant, kind);
  } else if (const auto* reals = find_attribute(node, "value_floats")) {
    const OnnxConstant constant{{reals->floats_size()},
                                TensorProto::FLOAT,
                                std::vector<double>(reals->floats().begin(), reals->floats().end())};
    values_[name] = constant_value(name, constant.shape, TensorProto::FLOAT, constant, kind);
  } else if (const auto* sparse = find_attribute(node, "sparse_value")) {
    const auto& tensor = sparse->sparse_tensor();
    values_[name] = constant_value(name, {tensor.dims().begin(), tensor.dims().end()},
                                   tensor.values().data_type(), std::nullopt, kind);
  } else if (const auto* value = find_attribute(node, "value")) {
    const TensorProto& tensor = value->t();
    auto constant = constant_of(tensor);
    if (!constant && !is_floating_type(tensor.data_type()) && !is_integer_type(tensor.data_type()))
      throw InputError("a constant that is no tensor of numbers cannot be read");
    values_[name] = constant_value(name, {tensor.dims().begin(), tensor.dims().end()}, tensor.data_type(),
                                   std::move(constant), kind);
  } else {
    throw InputError("a constant that is no tensor of numbers cannot be read");
  }
}

/// A weight that nothing else reads, and that another node reads as one in another shape, is a weight of that
/// shape.
bool OnnxReader::read_weight_shape(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  static const std::unordered_set<std::string> moves{"Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                                     "Transpose"};
  if (!is_standard(node) || !moves.contains(node.op_type()) || inputs.empty()) return false;
  if (inputs[0].form != OnnxForm::Weight || node.output_size() != 1) return false;
  if (node.op_type() == "Transpose" && inputs[0].shape.size() == 2) return false;  // may be shared
  const auto readers = [&](const std::string& name) {
    const auto found = uses_.find(name);
    return found == uses_.end() ? 0 : found->second;
  };
  if (readings_.of(node.output(0)) != ConstantReading::Weight || readers(node.input(0)) > 1 ||
      readers(inputs[0].name) > 1)
    return false;
  OnnxValue weight = inputs[0];
  weight.shape = *result_types(node, inputs).front().shape;
  weight.transposed = false;
  weight.constant = nullptr;
  if (onnx_elements(weight.shape) != onnx_elements(inputs[0].shape)) return false;
  give(node, 0, std::move(weight));
  return true;
}

bool OnnxReader::read_shape(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  if (!is_standard(node) || inputs.size() != 1 || node.output_size() != 1) return false;
  const OnnxShape& shape = inputs[0].shape;
  if (node.op_type() == "Size") {
    give_constant(node.output(0), integer_constant({}, {onnx_elements(shape).value_or(0)}));
    return true;
  }
  if (node.op_type() != "Shape") return false;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bounded = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = bounded(integer_attribute(node, "start", 0));
  const std::int64_t end = std::max(start, bounded(integer_attribute(node, "end", rank)));
  give_constant(node.output(0),
                integer_constant({end - start}, {shape.begin() + start, shape.begin() + end}));
  return true;
}

bool OnnxReader::read_folded(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  if (!is_standard(node) || inputs.empty()) return false;
  std::vector<const OnnxConstant*> constants;
  for (const OnnxValue& input : inputs) {
    if (input.form != OnnxForm::Constant && input.form != OnnxForm::None) return false;
    constants.push_back(input.constant.get());
  }
  auto results = folded_elements_ < kMostKept ? fold(node, opset(node), constants) : std::nullopt;
  if (!results) return false;
  for (const OnnxConstant& result : *results) folded_elements_ += result.size();
  for (std::size_t i = 0; i < results->size(); ++i)
    give_constant(node.output(static_cast<int>(i)), std::move((*results)[i]));
  return true;
}

bool OnnxReader::read_data(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  for (const OnnxValue& input : inputs) {
    if (input.form == OnnxForm::Tensor || input.form == OnnxForm::Weight) return false;
  }
  if (functions_.contains(operator_of(node))) return false;
  const std::vector<OnnxType> types = result_types(node, inputs);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    OnnxValue value;
    value.form = OnnxForm::Data;
    value.name = prefix_ + node.output(i);
    value.shape = *types[static_cast<std::size_t>(i)].shape;
    value.type = types[static_cast<std::size_t>(i)].element;
    values_[node.output(i)] = std::move(value);
  }
  return true;
}

bool OnnxReader::read_by_rule(const NodeProto& node, const std::vector<OnnxValue>& inputs,
                              std::string& why_not) {
  if (!is_standard(node)) return false;
  const auto rule = onnx_rules().find(node.op_type());
  if (rule == onnx_rules().end() || node.output_size() == 0) return false;
  OnnxNode at(writer_, uses_, node, opset(node), inputs);
  try {
    if (!rule->second(at)) return false;
  } catch (const InputError& error) {
    why_not = error.what();
    return false;
  }
  check_shapes(node, inputs, at.results());
  for (std::size_t i = 0; i < at.results().size() && i < static_cast<std::size_t>(node.output_size()); ++i)
    give(node, static_cast<int>(i), std::move(at.results()[i]));
  return true;
}

std::vector<OnnxValue> OnnxReader::inputs_of(const NodeProto& node) const {
  std::vector<OnnxValue> inputs;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    const auto found = values_.find(name);
    if (found == values_.end() || (found->second.form == OnnxForm::None && depth_ == 0))
      throw InputError(
          fmt::format("it reads \"{}\", which is no input, and no node before it makes it", name));
    inputs.push_back(found->second);
  }
  return inputs;
}

std::int64_t OnnxReader::opset(const NodeProto& node) const {
  const auto found = opsets_.find(is_standard(node) ? "" : node.domain());
  return found == opsets_.end() ? 1 : found->second;
}

void OnnxReader::give(const NodeProto& node, int place, OnnxValue value) {
  if (!node.output(place).empty()) values_[node.output(place)] = std::move(value);
}

void OnnxReader::give_constant(const std::string& name, OnnxConstant constant) {
  OnnxValue value;
  value.form = OnnxForm::Constant;
  value.name = prefix_ + name;
  value.shape = constant.shape;
  value.type = constant.type;
  value.constant = std::make_shared<OnnxConstant>(std::move(constant));
  values_[name] = std::move(value);
}

void OnnxReader::fail(const NodeProto& node, const std::string& what) const {
  const std::string name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  throw InputError(fmt::format("{}: node \"{}\" ({}): {}", source_, name, operator_of(node), what));
}

OnnxModel read_onnx_model(std::istream& in, std::int64_t size, const std::string& source,
                          const std::vector<NamedSize>& bound) {
  return OnnxReader(read_onnx(in, size, source), source, bound).read();
}

OnnxModel load_onnx(const std::string& path, const std::vector<NamedSize>& bound) {
  return OnnxReader(load_onnx_file(path), path, bound).read();
}

OnnxSizes read_onnx_sizes(std::istream& in, std::int64_t size, const std::string& source) {
  return sizes_of(read_onnx(in, size, source).graph());
}

OnnxSizes load_onnx_sizes(const std::string& path) { return sizes_of(load_onnx_file(path).graph()); }

}  // namespace pipesim

#include "models/onnx/reader/graph_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/onnx/reader/attributes.h"
#include "models/onnx/reader/folding.h"
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
      sizes_(model.graph(), source_, bound),
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
  const auto needed = needed_nodes(graph, uses_);
  unread_ = uses_;
  read_inputs();
  read_initializers(graph);
  read_nodes(graph.node(), needed);
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
  bool floats = false;
  for (const auto& sparse : graph.sparse_initializer()) {
    OnnxValue value;
    value.form = OnnxForm::Weight;
    value.name = sparse.values().name();
    value.shape.assign(sparse.dims().begin(), sparse.dims().end());
    value.type = sparse.values().data_type();
    values_[value.name] = std::move(value);
  }
  for (const TensorProto& tensor : graph.initializer()) {
    OnnxValue value;
    value.name = tensor.name();
    value.shape.assign(tensor.dims().begin(), tensor.dims().end());
    value.type = tensor.data_type();
    value.form = OnnxForm::Data;
    std::optional<OnnxConstant> constant;
    try {
      constant = constant_of(tensor);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", source_, error.what()));
    }
    const auto elements = onnx_elements(value.shape);
    const bool floating = is_floating_type(value.type);
    floats = floats || (floating && elements.value_or(0) > 1);
    if (floating &&
        !(constant && (*elements <= 1 || (is_causal_mask(*constant) || is_triangle_of_ones(*constant))))) {
      value.form = OnnxForm::Weight;
    } else if (constant) {
      value.form = OnnxForm::Constant;
      value.constant = std::make_shared<OnnxConstant>(std::move(*constant));
    }
    values_[value.name] = std::move(value);
  }
  constants_are_weights_ = constants_are_weights_ || (depth_ == 0 && !floats);
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
    if (read_shape(node, inputs) || read_folded(node, inputs) || read_data(node, inputs)) return;
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
  OnnxConstant constant;
  if (const auto* value = find_attribute(node, "value")) {
    const TensorProto& tensor = value->t();
    auto known = constant_of(tensor);
    const bool many = !known || known->size() > 1;
    if (is_floating_type(tensor.data_type()) && many &&
        (!known || (constants_are_weights_ && !is_causal_mask(*known)))) {
      OnnxValue weight;
      weight.form = OnnxForm::Weight;
      weight.name = prefix_ + node.output(0);
      weight.shape.assign(tensor.dims().begin(), tensor.dims().end());
      weight.type = tensor.data_type();
      values_[node.output(0)] = std::move(weight);
      return;
    }
    if (!known) throw InputError("a constant that is no tensor of numbers cannot be read");
    constant = std::move(*known);
  } else if (const auto* integer = find_attribute(node, "value_int")) {
    constant = integer_constant({}, {integer->i()});
  } else if (const auto* integers = find_attribute(node, "value_ints")) {
    constant = integer_constant({integers->ints_size()}, {integers->ints().begin(), integers->ints().end()});
  } else if (const auto* real = find_attribute(node, "value_float")) {
    constant = {{}, TensorProto::FLOAT, std::vector<double>{static_cast<double>(real->f())}};
  } else if (const auto* reals = find_attribute(node, "value_floats")) {
    constant = {{reals->floats_size()},
                TensorProto::FLOAT,
                std::vector<double>(reals->floats().begin(), reals->floats().end())};
  } else {
    throw InputError("a constant that is no tensor of numbers cannot be read");
  }
  give_constant(node.output(0), std::move(constant));
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

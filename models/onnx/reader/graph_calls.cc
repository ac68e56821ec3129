#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <utility>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/graph_reader.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"

// Nodes that are written in place of others, or as they are.

namespace pipesim {
namespace {

using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;

constexpr int kDeepestCall = 32;

/// An attribute of one of pipesim's own kinds.
AttributeValue value_of(const onnx::AttributeProto& attribute, const AttributeSchema& schema) {
  switch (schema.type) {
    case AttributeType::Flag:
    case AttributeType::Integer:
      return attribute.i();
    case AttributeType::Integers:
      return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    case AttributeType::Real:
      return static_cast<double>(attribute.f());
    case AttributeType::Word:
      break;
  }
  return attribute.s();
}

}  // namespace

void OnnxReader::read_condition(const NodeProto& node) {
  const std::vector<OnnxValue> inputs = inputs_of(node);
  if (inputs.size() != 1 || inputs[0].form != OnnxForm::Constant || inputs[0].constant->size() != 1)
    throw InputError("a branch on values cannot be read; allowed: a condition that is a constant");
  const char* chosen = inputs[0].constant->integer(0) != 0 ? "then_branch" : "else_branch";
  const onnx::AttributeProto* branch = find_attribute(node, chosen);
  if (branch == nullptr || !branch->has_g()) throw InputError(fmt::format("it has no \"{}\"", chosen));
  if (depth_ >= kDeepestCall) throw InputError(fmt::format("branches lie within {} others", kDeepestCall));
  ++depth_;
  const GraphProto& graph = branch->g();
  read_initializers(graph);
  read_nodes(graph.node(), needed_nodes(graph, uses_));
  for (int i = 0; i < std::min(node.output_size(), graph.output_size()); ++i) {
    const auto made = values_.find(graph.output(i).name());
    if (made == values_.end())
      throw InputError(fmt::format("\"{}\" of its branch is made by no node", graph.output(i).name()));
    values_[node.output(i)] = OnnxValue(made->second);
  }
  --depth_;
}

bool OnnxReader::read_function(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  if (const auto own = functions_.find(operator_of(node)); own != functions_.end()) {
    call(node, *own->second, inputs);
    return true;
  }
  const auto version = static_cast<int>(std::min(opset(node), newest_known_opset()));
  const onnx::OpSchema* schema =
      is_standard(node) ? onnx::OpSchemaRegistry::Schema(node.op_type(), version, "") : nullptr;
  if (schema == nullptr || !schema->HasFunction() || opset(node) > newest_known_opset()) return false;
  NodeProto complete = node;
  for (const auto& [name, attribute] : schema->attributes()) {
    if (find_attribute(node, name) == nullptr && attribute.default_value.has_name())
      *complete.add_attribute() = attribute.default_value;
  }
  call(complete, *schema->GetFunction(), inputs);
  return true;
}

void OnnxReader::call(const NodeProto& node, const FunctionProto& function,
                      const std::vector<OnnxValue>& inputs) {
  if (depth_ >= kDeepestCall)
    throw InputError(fmt::format("functions call one another {} deep", kDeepestCall));
  Values own;
  for (int i = 0; i < function.input_size(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    own[function.input(i)] = place < inputs.size() ? inputs[place] : OnnxValue();
  }
  const std::string label = node.name().empty() ? node.op_type() : node.name();
  ++depth_;
  std::swap(own, values_);
  const FunctionProto* caller = readings_.enter(&function);
  const std::string prefix = std::exchange(prefix_, prefix_ + label + ".");
  Opsets opsets;
  for (const auto& import : function.opset_import()) opsets[import.domain()] = import.version();
  std::swap(opsets, opsets_);
  for (const std::string& output : function.output()) ++uses_[output];
  for (const NodeProto& inner : function.node())
    visit_reads(inner, [&](const std::string& name) { ++uses_[name]; });
  for (const NodeProto& inner : function.node()) {
    NodeProto copy = inner;
    copy.set_name(label + "/" + (inner.name().empty() ? inner.op_type() : inner.name()));
    // Attributes that stand for those of the call.
    for (int a = copy.attribute_size(); a-- > 0;) {
      auto* attribute = copy.mutable_attribute(a);
      if (attribute->ref_attr_name().empty()) continue;
      const std::string name = attribute->name();
      const auto* given = find_attribute(node, attribute->ref_attr_name());
      if (given == nullptr) {
        copy.mutable_attribute()->DeleteSubrange(a, 1);
      } else {
        *attribute = *given;
        attribute->set_name(name);
      }
    }
    read_node(copy);
  }
  std::swap(opsets, opsets_);
  std::swap(own, values_);
  readings_.enter(caller);
  prefix_ = prefix;
  --depth_;
  for (int i = 0; i < std::min(node.output_size(), function.output_size()); ++i) {
    const auto made = own.find(function.output(i));
    if (made != own.end()) give(node, i, made->second);
  }
}

void OnnxReader::read_opaque(const NodeProto& node, const std::vector<OnnxValue>& inputs,
                             const std::string& why) {
  const std::vector<OnnxType> types = result_types(node, inputs);
  OnnxNode at(writer_, uses_, node, opset(node), inputs);
  OperatorRequest request;
  request.kind = "opaque";
  request.name = at.name();
  const std::string what = operator_of(node);
  request.attributes["what"] = what;
  std::int64_t parameters = 0;
  for (const OnnxValue& input : inputs) {
    if (input.form == OnnxForm::Tensor) request.inputs.push_back(input.tensor);
    if (input.form == OnnxForm::Data && onnx_elements(input.shape).value_or(0) > 0)
      request.inputs.push_back(is_floating_type(input.type)
                                   ? writer_.data(input.name, input.shape)
                                   : writer_.data(input.name, input.shape, DataType::Int64));
    if (input.form == OnnxForm::Weight) parameters += onnx_elements(input.shape).value_or(0);
  }
  constexpr std::int64_t most_parameters = kLargestSize;
  request.attributes["parameters"] = std::min(parameters, most_parameters);
  std::vector<int> given;
  for (int i = 0; i < node.output_size(); ++i) {
    if (!at.wanted(i)) continue;
    OnnxShape shape = *types[static_cast<std::size_t>(i)].shape;
    if (shape.empty()) shape = {1};
    if (std::ranges::find(shape, 0) != shape.end())
      throw InputError(fmt::format("its result \"{}\" has no elements", node.output(i)));
    given.push_back(i);
    request.attributes[given.size() == 1 ? "shape" : fmt::format("shape{}", given.size())] = shape;
  }
  constexpr std::size_t most_results = 4;
  if (given.empty() || given.size() > most_results)
    throw InputError(fmt::format("pipesim does not know it, and it has {} results, allowed: 1 to {}",
                                 given.size(), most_results));
  const std::vector<TensorId> outputs = writer_.add(std::move(request));
  opaque_[writer_.operators().back().request.name] = {
      what, node.name().empty() ? node.output(0) : node.name(), why};
  for (std::size_t i = 0; i < given.size(); ++i) {
    OnnxValue value;
    value.form = OnnxForm::Tensor;
    value.tensor = outputs[i];
    value.shape = writer_.shape(outputs[i]);
    value.type = types[static_cast<std::size_t>(given[i])].element;
    give(node, given[i], std::move(value));
  }
}

bool OnnxReader::read_own_kind(const NodeProto& node, const std::vector<OnnxValue>& inputs) {
  if (node.domain() != "pipesim") return false;
  const OperatorKind& kind = operator_kind(node.op_type());
  OnnxNode at(writer_, uses_, node, opset(node), inputs);
  OperatorRequest request;
  request.kind = kind.name;
  request.name = node.name().empty() ? kind.name : node.name();
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (const AttributeSchema* schema = kind.find_attribute(attribute.name()))
      request.attributes[attribute.name()] = value_of(attribute, *schema);
  }
  for (const OnnxValue& input : inputs) {
    if (input.form == OnnxForm::Weight) {
      request.weights.push_back(input.name);
    } else if (is_integer_type(input.type) && input.form != OnnxForm::Tensor) {
      request.inputs.push_back(writer_.data(input.name, input.shape, DataType::Int64));
    } else {
      request.inputs.push_back(at.tensor(input).tensor);
    }
  }
  const std::vector<TensorId> outputs = writer_.add(std::move(request));
  for (std::size_t i = 0; i < outputs.size() && i < static_cast<std::size_t>(node.output_size()); ++i) {
    OnnxValue value;
    value.form = OnnxForm::Tensor;
    value.tensor = outputs[i];
    value.shape = writer_.shape(outputs[i]);
    value.type = onnx::TensorProto::FLOAT;
    value.loss = value.shape.empty();
    give(node, static_cast<int>(i), std::move(value));
  }
  return true;
}

std::vector<std::string> OnnxReader::notes(const std::vector<TensorId>& results) const {
  struct Group {
    int count = 0;
    std::string first, why;
  };
  std::map<std::string, Group> groups;
  for (const std::size_t i : writer_.needed(results)) {
    const auto found = opaque_.find(writer_.operators()[i].request.name);
    if (found == opaque_.end()) continue;
    Group& group = groups[found->second.what];
    if (group.count++ == 0) {
      group.first = found->second.node;
      group.why = found->second.why;
    }
  }
  std::vector<std::string> lines;
  if (std::string unread = note_of_unread(); !unread.empty()) lines.push_back(std::move(unread));
  if (groups.empty()) return lines;
  std::string line = "opaque, known by their shapes only:";
  for (const auto& [what, group] : groups)
    line += fmt::format("{} {} ({}, first at {}{})", line.back() == ':' ? "" : ",", what, group.count,
                        group.first, group.why.empty() ? "" : ": " + group.why);
  lines.push_back(std::move(line));
  return lines;
}

std::string OnnxReader::note_of_unread() const {
  constexpr double told = 1 << 20;
  int count = 0;
  double elements = 0;
  std::string first;
  for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
    if (uses_.contains(tensor.name())) continue;
    if (count++ == 0) first = tensor.name();
    elements += static_cast<double>(onnx_elements({tensor.dims().begin(), tensor.dims().end()}).value_or(0));
  }
  if (elements < told) return {};
  return fmt::format("left out: {} initializer{} of {:.0f} elements that no node reads, first \"{}\"", count,
                     count == 1 ? "" : "s", elements, first);
}

}  // namespace pipesim

#include "models/onnx/reader/constant_readings.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/onnx/reader/folding/attributes.h"

namespace pipesim {
namespace {

using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;

/// The inputs of operators that hold weights, and those that hold settings.
struct Places {
  std::vector<int> weights, settings;
};

const Places* places_of(const NodeProto& node) {
  static const std::unordered_map<std::string, Places> all{
      {"Conv", {{1, 2}, {}}},
      {"ConvTranspose", {{1, 2}, {}}},
      {"DeformConv", {{1, 3}, {}}},
      {"Gemm", {{0, 1, 2}, {}}},
      {"MatMul", {{0, 1}, {}}},
      {"BatchNormalization", {{1, 2}, {3, 4}}},  // the last are running statistics
      {"LayerNormalization", {{1, 2}, {}}},
      {"RMSNormalization", {{1}, {}}},
      {"InstanceNormalization", {{1, 2}, {}}},
      {"GroupNormalization", {{1, 2}, {}}},
      {"LSTM", {{1, 2, 3, 7}, {5, 6}}},  // the latter is the state that it begins with
      {"GRU", {{1, 2, 3}, {5}}},
      {"RNN", {{1, 2, 3}, {5}}},
      {"Gather", {{0}, {}}},
      {"PRelu", {{1}, {}}},
      {"Resize", {{}, {1, 2, 3}}},
      {"Upsample", {{}, {1}}},
      {"Clip", {{}, {1, 2}}},
      {"Pad", {{}, {1, 2}}},
      {"Dropout", {{}, {1, 2}}},
      {"OneHot", {{}, {1, 2}}},
      {"QuantizeLinear", {{}, {1, 2}}},
      {"DequantizeLinear", {{}, {1, 2}}},
      {"NonMaxSuppression", {{}, {2, 3, 4}}},
      {"SoftmaxCrossEntropyLoss", {{}, {2}}},
      {"NegativeLogLikelihoodLoss", {{}, {2}}}};
  const auto found = is_standard(node) ? all.find(node.op_type()) : all.end();
  return found == all.end() ? nullptr : &found->second;
}

bool has(const std::vector<int>& list, int place) { return std::ranges::find(list, place) != list.end(); }

bool makes_shape(const NodeProto& node) {
  return is_standard(node) && (node.op_type() == "Shape" || node.op_type() == "Size");
}

/// Whether its result has the elements that it reads, in another order, shape or type.
bool moves(const NodeProto& node) {
  static const std::unordered_set<std::string> all{"Identity", "Cast",      "CastLike", "Reshape",
                                                   "Squeeze",  "Unsqueeze", "Flatten",  "Transpose"};
  return is_standard(node) && all.contains(node.op_type());
}

/// What a node reads at a place as. `integers`: it reads nothing but constants and integers that come in.
/// `inputs`: nothing but constants and what comes in.
ConstantReading reading_at(const NodeProto& node, int place, bool integers, bool inputs) {
  if (!is_standard(node))
    return node.domain() == "pipesim" ? ConstantReading::Weight : ConstantReading::Operand;
  const bool any = node.op_type() == "Einsum";
  const Places* places = places_of(node);
  if (places != nullptr && has(places->settings, place)) return ConstantReading::Values;
  // A table is looked up by integers; a product with integers is one of positions and frequencies.
  const bool table = node.op_type() == "Gather";
  if (integers && !table) return ConstantReading::Numbers;
  if (any || (places != nullptr && has(places->weights, place))) return ConstantReading::Weight;
  const bool term = node.op_type() == "Add" || node.op_type() == "Mul";
  return term && !inputs ? ConstantReading::Term : ConstantReading::Operand;
}

template <class Visit>
void visit_branches(const NodeProto& node, const Visit& visit) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const GraphProto& graph : attribute.graphs()) visit(graph);
  }
}

bool is_filled_with(const OnnxConstant& constant, double number) {
  for (std::size_t i = 0; i < constant.size(); ++i) {
    if (constant.real(i) != number) return false;
  }
  return true;
}

/// Whether the elements lie along one dim.
bool is_vector(const OnnxShape& shape) {
  return std::ranges::count_if(shape, [](std::int64_t extent) { return extent != 1; }) == 1;
}

}  // namespace

ConstantReadings::ConstantReadings(const onnx::ModelProto& model, const Nodes& needed) {
  const GraphProto& graph = model.graph();
  for (const FunctionProto& function : model.functions())
    by_name_[operator_name(function.domain(), function.name())] = &function;
  for (const auto& input : graph.input()) {
    graph_.given.insert(input.name());
    const auto& type = input.type();
    if (type.has_tensor_type() && is_integer_type(type.tensor_type().elem_type()))
      graph_.plain.insert(input.name());
  }
  add_constants(graph_, graph);
  for (const NodeProto& node : graph.node()) {
    if (needed.contains(&node)) find_makers(graph_, node);
  }
  for (int i = graph.node_size(); i-- > 0;) {
    if (needed.contains(&graph.node(i))) find_readings(graph_, graph.node(i));
  }
  look_at_initializers(graph);
}

void ConstantReadings::add_constants(Scope& scope, const GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) scope.fixed.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) scope.fixed.insert(tensor.values().name());
}

/// Says of a node's results whether they are fixed or plain.
void ConstantReadings::find_makers(Scope& scope, const NodeProto& node) {
  visit_branches(node, [&](const GraphProto& graph) {
    add_constants(scope, graph);
    for (const NodeProto& inner : graph.node()) find_makers(scope, inner);
  });
  const auto is_fixed = [&](const std::string& name) { return name.empty() || scope.fixed.contains(name); };
  const auto is_plain = [&](const std::string& name) { return is_fixed(name) || scope.plain.contains(name); };
  bool branches = false;
  visit_branches(node, [&](const GraphProto&) { branches = true; });
  const bool fixed = makes_shape(node) || (!branches && std::ranges::all_of(node.input(), is_fixed));
  // Rows that integers choose from a table are those of an embedding.
  const bool rows =
      is_standard(node) && node.op_type() == "Gather" && node.input_size() > 0 && is_fixed(node.input(0));
  const bool plain = fixed || (!branches && !rows && std::ranges::all_of(node.input(), is_plain));
  for (const std::string& output : node.output()) {
    // Names of branches may be those of others, which then are none of both.
    if (!fixed) scope.fixed.erase(output);
    if (!plain) scope.plain.erase(output);
    if (plain && !output.empty()) (fixed ? scope.fixed : scope.plain).insert(output);
  }
}

/// Hands what is known of a node's results on to what it reads.
void ConstantReadings::find_readings(Scope& scope, const NodeProto& node) {
  const auto read = [&](const std::string& name, ConstantReading reading) {
    if (name.empty()) return;
    ConstantReading& known = scope.readings.try_emplace(name, reading).first->second;
    known = std::max(known, reading);
  };
  auto result = ConstantReading::None;
  for (const std::string& output : node.output()) {
    if (const auto found = scope.readings.find(output); found != scope.readings.end())
      result = std::max(result, found->second);
  }
  visit_branches(node, [&](const GraphProto& graph) {
    for (const auto& output : graph.output()) read(output.name(), result);
    for (int i = graph.node_size(); i-- > 0;) find_readings(scope, graph.node(i));
  });
  const auto own = by_name_.find(operator_of(node));
  const Scope* within = own == by_name_.end() ? nullptr : &of_function(*own->second);
  const auto fixed = [&](const std::string& name) { return name.empty() || scope.fixed.contains(name); };
  const bool alone = std::ranges::all_of(node.input(), fixed);
  const bool integers = std::ranges::all_of(
      node.input(), [&](const std::string& name) { return fixed(name) || scope.plain.contains(name); });
  const bool inputs = std::ranges::all_of(
      node.input(), [&](const std::string& name) { return fixed(name) || scope.given.contains(name); });
  for (int i = 0; i < node.input_size(); ++i) {
    auto reading = reading_at(node, i, integers, inputs);
    if (within != nullptr && i < own->second->input_size()) {
      const auto found = within->readings.find(own->second->input(i));
      reading = found == within->readings.end() ? ConstantReading::None : found->second;
    } else if (makes_shape(node)) {
      reading = ConstantReading::Values;
    } else if (alone) {
      reading = result == ConstantReading::Weight && !moves(node) ? ConstantReading::Part : result;
    }
    read(node.input(i), reading);
  }
}

const ConstantReadings::Scope& ConstantReadings::of_function(const FunctionProto& function) {
  const auto [place, added] = functions_.try_emplace(&function);
  if (!added) return place->second;  // those that call themselves are refused when they are read
  Scope scope;
  for (const NodeProto& node : function.node()) find_makers(scope, node);
  for (const std::string& output : function.output()) scope.readings[output] = ConstantReading::Operand;
  for (int i = function.node_size(); i-- > 0;) find_readings(scope, function.node(i));
  return functions_[&function] = std::move(scope);
}

void ConstantReadings::look_at_initializers(const GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) {
    const auto elements = onnx_elements({tensor.dims().begin(), tensor.dims().end()});
    const ConstantReading reading = of(tensor.name());
    const bool many = reading > ConstantReading::Numbers && elements.value_or(0) > 1;
    if (is_floating_type(tensor.data_type()) && (many || reading == ConstantReading::Weight))
      initializers_learn_ = true;
  }
}

const FunctionProto* ConstantReadings::enter(const FunctionProto* function) {
  return std::exchange(within_, function);
}

ConstantReading ConstantReadings::of(const std::string& name) const {
  const Scope* scope = &graph_;
  if (within_ != nullptr) {
    const auto function = functions_.find(within_);
    if (function == functions_.end()) return ConstantReading::Values;  // one that ONNX defines
    scope = &function->second;
  }
  const auto found = scope->readings.find(name);
  return found == scope->readings.end() ? ConstantReading::None : found->second;
}

bool ConstantReadings::learned(const std::string& name, const OnnxShape& shape, const OnnxConstant* known,
                               Kind kind) const {
  const ConstantReading reading = of(name);
  if (reading == ConstantReading::None || reading == ConstantReading::Values) return false;
  if (known != nullptr && (is_score_mask(*known) || is_triangle_of_ones(*known) || is_wave_table(*known)))
    return false;
  // Exporters write a norm without factors by ones and zeros of their own, beside the weights of the file.
  const bool filled = kind == Kind::Node && initializers_learn_ && known != nullptr && known->size() > 1;
  if (filled && (is_filled_with(*known, 0) || is_filled_with(*known, 1))) return false;
  if (reading == ConstantReading::Weight) return true;
  if (onnx_elements(shape).value_or(0) <= 1) return kind == Kind::Initializer && known == nullptr;
  if (kind == Kind::Initializer || reading == ConstantReading::Part) return true;
  if (reading == ConstantReading::Numbers) return false;
  return !initializers_learn_ || (reading == ConstantReading::Term && is_vector(shape));
}

}  // namespace pipesim

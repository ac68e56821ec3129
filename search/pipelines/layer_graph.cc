#include "search/pipelines/layer_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "models/box.h"
#include "sim/base/errors.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {
namespace {

void insert_ordered(std::vector<std::int32_t>& list, std::int32_t value) {
  const auto at = std::ranges::lower_bound(list, value);
  if (at == list.end() || *at != value) list.insert(at, value);
}

Bytes bytes_of(const Tensor& tensor) { return Bytes(tensor.elements() * bytes_per_element(tensor.type)); }

// Tensors of profiled layers are rounded up to whole elements of every sample.
Bytes measured_bytes(const Operator& op, const std::string& attribute) {
  return Bytes(static_cast<std::int64_t>(std::llround(std::get<double>(op.attributes.at(attribute)))));
}

bool is_described(std::string_view name, std::string_view beginning) {
  return name.substr(name.find(' ') + 1).starts_with(beginning);
}

}  // namespace

LayerGraph::LayerGraph(std::vector<Layer> layers, const std::vector<Edge>& edges)
    : layers_(std::move(layers)), consumers_(layers_.size()), inputs_(layers_.size()) {
  for (const auto& [from, to] : edges) {
    if (from < 0 || from >= to || static_cast<std::size_t>(to) >= layers_.size())
      throw InternalError("an edge between layers does not follow their order");
    insert_ordered(consumers_[static_cast<std::size_t>(from)], to);
    insert_ordered(inputs_[static_cast<std::size_t>(to)], from);
  }
}

LayerGraph layers_of(const OperatorGraph& graph, const CostModel& costs, DeviceId device) {
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    const std::vector<Range> whole = whole_ranges(op);
    const auto time = [&](Pass pass) { return costs.operator_time(graph, op, pass, whole, device); };
    Layer layer{op.name, time(Pass::Forward), time(Pass::BackwardInput) + time(Pass::BackwardWeight), {}, {}};
    for (const TensorUse& use : op.uses) {
      const Tensor& tensor = graph.tensor(use.tensor);
      if (use.role == Role::Output) layer.output += bytes_of(tensor);
      if (use.role == Role::Weight && graph.consumers(use.tensor).front().op == OperatorId(i))
        layer.parameters += bytes_of(tensor);
      if ((use.role == Role::Input || use.role == Role::Index) && tensor.producer.valid())
        edges.emplace_back(tensor.producer.value, static_cast<std::int32_t>(i));
    }
    if (op.kind == "profiled") {
      layer.output = measured_bytes(op, "activation_bytes");
      layer.parameters = measured_bytes(op, "parameter_bytes");
    }
    layers.push_back(std::move(layer));
  }
  return {std::move(layers), edges};
}

std::vector<std::vector<std::int32_t>> inseparable_layers(const OperatorGraph& graph,
                                                          const LayerGraph& layers,
                                                          const std::string& schedule) {
  if (schedule_kind(schedule).versions_behind == nullptr) return {};
  std::map<std::string, std::int32_t> number;
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(layers.size()); ++l) number[layers[l].name] = l;
  std::vector<std::vector<std::int32_t>> together;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    std::vector<std::int32_t> users;
    for (const UseRef use : graph.consumers(TensorId(t))) {
      const auto user = number.find(graph.op(use.op).name);
      if (user != number.end()) insert_ordered(users, user->second);
    }
    if (users.size() > 1) together.push_back(std::move(users));
  }
  return together;
}

std::int32_t leading_inputs(const OperatorGraph& graph) {
  const auto is_input = [](const Operator& op) {
    return is_described(op.name, "Input") &&
           std::ranges::none_of(op.uses, [](const TensorUse& use) { return use.role == Role::Input; });
  };
  const auto first = std::ranges::find_if_not(graph.operators(), is_input);
  return static_cast<std::int32_t>(first - graph.operators().begin());
}

LayerGraph without_inputs(const LayerGraph& graph) {
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  std::vector<std::int32_t> number(graph.size(), -1);  // among those that stay
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
    const bool input = graph.inputs(i).empty() && is_described(graph[i].name, "Input");
    const bool item = graph.consumers(i).empty() && is_described(graph[i].name, "__getitem__");
    if (input || item) continue;
    number[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(layers.size());
    for (const std::int32_t from : graph.inputs(i)) {
      const std::int32_t stays = number[static_cast<std::size_t>(from)];
      if (stays >= 0) edges.emplace_back(stays, static_cast<std::int32_t>(layers.size()));
    }
    layers.push_back(graph[i]);
  }
  return {std::move(layers), edges};
}

std::vector<std::int32_t> of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                       const std::vector<std::int32_t>& of_layer) {
  std::map<std::string_view, std::int32_t> known;
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(layers.size()); ++l)
    known[layers[l].name] = of_layer[static_cast<std::size_t>(l)];
  constexpr std::int32_t kUnknown = -1;
  std::vector<std::int32_t> found;
  for (const Operator& op : graph.operators()) {
    const auto at = known.find(op.name);
    found.push_back(at == known.end() ? kUnknown : at->second);
  }
  for (std::size_t i = found.size(); i-- > 0;) {
    if (found[i] != kUnknown) continue;
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role != Role::Output) continue;
      for (const UseRef reader : graph.consumers(use.tensor)) {
        const std::int32_t of_reader = found[reader.op.index()];
        if (of_reader != kUnknown && (found[i] == kUnknown || of_reader < found[i])) found[i] = of_reader;
      }
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != kUnknown) continue;
    found[i] = 0;
    for (const TensorUse& use : graph.operators()[i].uses) {
      const OperatorId producer = graph.tensor(use.tensor).producer;
      if (use.role != Role::Output && producer.valid())
        found[i] = std::max(found[i], found[producer.index()]);
    }
  }
  return found;
}

}  // namespace pipesim

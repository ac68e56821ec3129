#include "search/planners/layer_graph.h"

#include <algorithm>
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

bool is_described(const Layer& layer, std::string_view beginning) {
  return std::string_view(layer.name).substr(layer.name.find(' ') + 1).starts_with(beginning);
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
      if (use.role == Role::Input && tensor.producer.valid())
        edges.emplace_back(tensor.producer.value, static_cast<std::int32_t>(i));
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

LayerGraph without_inputs(const LayerGraph& graph) {
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  std::vector<std::int32_t> number(graph.size(), -1);  // among those that stay
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
    const bool input = graph.inputs(i).empty() && is_described(graph[i], "Input");
    const bool item = graph.consumers(i).empty() && is_described(graph[i], "__getitem__");
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

}  // namespace pipesim

#include "search/baselines/expert.h"

#include <algorithm>
#include <string_view>

#include "search/baselines/heads.h"
#include "search/baselines/layer_wise.h"
#include "search/baselines/placement.h"

namespace pipesim {
namespace {

bool has_kind(const OperatorGraph& graph, std::string_view kind) {
  return std::any_of(graph.operators().begin(), graph.operators().end(),
                     [&](const Operator& op) { return op.kind == kind; });
}

// "Fully-connected layers contain about 95% of the parameters" (Krizhevsky, section 2): what makes splitting
// them pay.
bool linears_hold_most_weights(const OperatorGraph& graph) {
  std::int64_t elements = 0;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    const OperatorId owner = graph.consumers(TensorId(t)).front().op;
    if (graph.op(owner).kind == "linear") elements += graph.tensors()[t].elements();
  }
  return 2 * elements > graph.parameter_count();
}

// Linear operators and all that depends on one.
std::vector<bool> from_first_linear(const OperatorGraph& graph) {
  std::vector<bool> after(graph.operators().size(), false);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const Operator& op = graph.operators()[i];
    after[i] = op.kind == "linear";
    for (const TensorUse& use : op.uses) {
      const OperatorId producer = graph.tensor(use.tensor).producer;
      if (use.role != Role::Output && producer.valid()) after[i] = after[i] || after[producer.index()];
    }
  }
  return after;
}

// What runs over the features: the last dimension of the output, or of the input when the output is a scalar.
FactorIndex feature_factor(const Operator& op) {
  FactorIndex f = -1;
  for (const TensorUse& use : op.uses) {
    if (use.role != Role::Output && use.role != Role::Input) continue;
    if (!use.dims.empty() && (f < 0 || use.role == Role::Output)) f = major_factor(use.dims.back());
  }
  return f;
}

// By output over all devices; where they do not divide it, the rest goes to the samples. A loss could be cut
// unevenly, but must be cut like the scores that it reads.
ParallelConfig split_by_output(const Operator& op, std::span<const DeviceId> devices) {
  const auto count = static_cast<std::int64_t>(devices.size());
  const FactorIndex f = feature_factor(op);
  std::int64_t parts = 1;
  if (f >= 0) {
    Factor even = op.factors[static_cast<std::size_t>(f)];
    even.uneven = false;
    parts = parts_of(even, count);
  }
  std::vector<FactorSplit> splits{sample_split(op, count / parts)};
  if (parts > 1) splits.push_back({f, parts});
  if (!can_split(op, splits)) splits = {sample_split(op, count)};
  return arranged(op, splits, devices);
}

}  // namespace

Strategy expert_strategy(const OperatorGraph& graph, const CostModel& costs) {
  const auto mixes_by_heads = [](const Operator& op) {
    return is_multi_head(op) || is_multi_head_scan(op) || op.kind == "moe_dispatch";
  };
  if (std::ranges::any_of(graph.operators(), mixes_by_heads)) return transformer_expert(graph, costs);
  if (has_kind(graph, "conv2d")) return convolution_expert(graph, costs);
  if (has_kind(graph, "lstm_cell")) return recurrent_expert(graph, costs);
  return data_parallel_strategy(graph, costs);
}

Strategy convolution_expert(const OperatorGraph& graph, const CostModel& costs) {
  Strategy strategy = data_parallel_strategy(graph, costs);
  if (!linears_hold_most_weights(graph)) return strategy;
  const std::vector<DeviceId> devices = sample_devices(graph, costs.topology());
  const std::vector<bool> split = from_first_linear(graph);
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (split[i]) strategy[i] = split_by_output(graph.operators()[i], devices);
  }
  return strategy;
}

Strategy recurrent_expert(const OperatorGraph& graph, const CostModel& costs) {
  const DeviceMesh mesh = node_mesh(costs.topology(), smallest_node(costs.topology()), graph.batch());
  const auto node = std::span(mesh.devices).first(static_cast<std::size_t>(mesh.members));
  const std::vector<std::size_t> positions = layer_wise_positions(graph, costs, node);
  Strategy strategy;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const Operator& op = graph.operators()[i];
    const FactorSplit split = sample_split(op, mesh.groups);
    strategy.push_back(
        arranged(op, std::span(&split, 1), mesh.column(static_cast<std::int64_t>(positions[i]))));
  }
  return strategy;
}

}  // namespace pipesim

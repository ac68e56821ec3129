// The expert's strategy for transformers: tensor parallelism as in Megatron-LM, found from the operators.
#include <algorithm>
#include <array>
#include <string_view>

#include "search/baselines/expert.h"
#include "search/baselines/heads.h"
#include "search/baselines/placement.h"

namespace pipesim {
namespace {

// A dimension of a tensor that is split within a group.
struct DimSplit {
  std::size_t dim = 0;
  std::int64_t degree = 1;
};

const TensorUse& output_of(const Operator& op) {
  return *std::find_if(op.uses.begin(), op.uses.end(),
                       [](const TensorUse& use) { return use.role == Role::Output; });
}

// Normalises or joins along the width of a head, [b, s, heads…, width]; heads may be apart.
bool works_within_heads(const Operator& op) {
  const std::size_t rank = output_of(op).dims.size();
  if (rank < 4) return false;
  if (op.kind == "concat")
    return std::get<std::int64_t>(op.attributes.at("axis")) + 1 == std::ssize(output_of(op).dims);
  return op.kind == "rms_norm" || op.kind == "layer_norm";
}

bool has_heads(const Operator& op) { return is_multi_head(op) || is_multi_head_scan(op); }

// Operators that work on each part of a split input by itself and leave their output split alike.
bool passes_on(const Operator& op) {
  constexpr std::array<std::string_view, 13> kinds{"rotary",
                                                   "mul",
                                                   "dropout",
                                                   "relu",
                                                   "relu2",
                                                   "gelu",
                                                   "quick_gelu",
                                                   "silu",
                                                   "swiglu",
                                                   "sigmoid",
                                                   "tanh",
                                                   "expert_linear",
                                                   "causal_convolution"};
  return has_heads(op) || std::find(kinds.begin(), kinds.end(), op.kind) != kinds.end() ||
         works_within_heads(op);
}

std::int64_t size_of(const Operator& op, std::string_view factor) {
  return op.factors[static_cast<std::size_t>(op.factor(std::string(factor)))].size;
}

// Returns the largest number that divides the devices of the smallest node and the heads of every attention.
std::int64_t tensor_degree(const OperatorGraph& graph, const Topology& topology) {
  const std::int64_t node = smallest_node(topology);
  std::int64_t degree = node;
  const auto divides = [&](std::int64_t d) {
    return node % d == 0 &&
           std::all_of(graph.operators().begin(), graph.operators().end(), [d](const Operator& op) {
             return !has_heads(op) || size_of(op, "g") * size_of(op, "r") % d == 0;
           });
  };
  while (!divides(degree)) --degree;
  return degree;
}

class TensorParallel {
 public:
  TensorParallel(const OperatorGraph& graph, DeviceMesh mesh)
      : graph_(graph),
        mesh_(std::move(mesh)),
        absorbed_(graph.tensors().size()),
        split_(graph.tensors().size()) {
    for (std::size_t i = graph.operators().size(); i-- > 0;) look_ahead(graph.operators()[i]);
    for (const Operator& op : graph.operators()) vocabulary_ = std::max(vocabulary_, rows_of(op));
  }

  Strategy strategy() {
    Strategy result;
    for (const Operator& op : graph_.operators()) result.push_back(config_of(op));
    return result;
  }

 private:
  static std::int64_t rows_of(const Operator& op) { return op.kind == "embedding" ? size_of(op, "v") : 0; }

  // Would this operator take its first input in parts? A linear adds up over what it contracts, unless an
  // activation needs the sum first; a loss and a combination of experts end the split as well.
  [[nodiscard]] bool absorbs(const Operator& op) const {
    if (passes_on(op)) return absorbed_[output_of(op).tensor.index()];
    if (op.kind == "linear") return factor_of(op, op.uses.front().dims.back()).max_degree > 1;
    return op.kind == "cross_entropy" || op.kind == "moe_combine";
  }

  // A tensor may be split when all its consumers take parts.
  void look_ahead(const Operator& op) {
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output) continue;
      const auto consumers = graph_.consumers(use.tensor);
      absorbed_[use.tensor.index()] =
          !consumers.empty() && std::all_of(consumers.begin(), consumers.end(), [&](UseRef c) {
            const Operator& consumer = graph_.op(c.op);
            return consumer.uses[static_cast<std::size_t>(c.use)].role == Role::Input && absorbs(consumer);
          });
    }
  }

  static const Factor& factor_of(const Operator& op, const IndexExpr& dim) {
    return op.factors[static_cast<std::size_t>(major_factor(dim))];
  }

  // Splits over a group's members before copies fill up the rest.
  [[nodiscard]] std::vector<FactorSplit> member_splits(const Operator& op) const {
    const TensorUse& input = op.uses.front();
    if (op.kind == "embedding")
      return rows_of(op) == vocabulary_ ? parts_along(op, {op.factor("v")}) : none();
    if (op.kind == "linear_cross_entropy") return parts_along(op, {op.factor("v")});
    if (op.kind == "moe_dispatch") return parts_along(op, {op.factor("e")});
    if (!split_[input.tensor.index()].empty()) return like_input(input);
    if (!absorbed_[output_of(op).tensor.index()]) return none();
    if (op.kind == "broadcast") return parts_along(op, {added_factor(op)});
    return op.kind == "linear" ? parts_along(op, heads(op)) : none();
  }

  static std::vector<FactorSplit> none() { return {}; }

  // What a linear computes: [heads] of [heads, width], or its only dimension.
  static std::vector<FactorIndex> heads(const Operator& op) {
    std::vector<FactorIndex> list;
    for (const IndexExpr& dim : output_of(op).dims) {
      if (factor_of(op, dim).kind == FactorKind::Parameter) list.push_back(major_factor(dim));
    }
    if (list.size() > 1) list.pop_back();
    return list;
  }

  // The dimension that a broadcast adds: heads that share what it reads.
  static FactorIndex added_factor(const Operator& op) {
    return major_factor(
        output_of(op).dims[static_cast<std::size_t>(std::get<std::int64_t>(op.attributes.at("axis")))]);
  }

  [[nodiscard]] std::vector<FactorSplit> parts_along(const Operator& op,
                                                     const std::vector<FactorIndex>& factors) const {
    std::vector<FactorSplit> splits;
    std::int64_t rest = mesh_.members;
    for (const FactorIndex f : factors) {
      const std::int64_t parts = parts_of(op.factors[static_cast<std::size_t>(f)], rest);
      if (parts > 1) splits.push_back({f, parts});
      rest /= parts;
    }
    return splits;
  }

  [[nodiscard]] std::vector<FactorSplit> like_input(const TensorUse& input) const {
    std::vector<FactorSplit> splits;
    for (const DimSplit& s : split_[input.tensor.index()]) {
      const FactorIndex f = major_factor(input.dims[s.dim]);
      if (f >= 0) splits.push_back({f, s.degree});
    }
    return splits;
  }

  ParallelConfig config_of(const Operator& op) {
    std::vector<FactorSplit> splits = member_splits(op);
    splits.insert(splits.begin(), sample_split(op, mesh_.groups));
    if (!can_split(op, splits)) splits.resize(1);
    std::int64_t parts = 1;
    for (std::size_t i = 1; i < splits.size(); ++i) parts *= splits[i].degree;
    remember(op, std::span(splits).subspan(1));
    splits.push_back({ShardGrid::replica_axis, mesh_.members / parts});
    return arranged(op, splits, mesh_.devices);
  }

  void remember(const Operator& op, std::span<const FactorSplit> splits) {
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output) continue;
      for (const FactorSplit& s : splits) {
        for (std::size_t d = 0; d < use.dims.size(); ++d) {
          if (major_factor(use.dims[d]) == s.factor) split_[use.tensor.index()].push_back({d, s.degree});
        }
      }
    }
  }

  const OperatorGraph& graph_;
  const DeviceMesh mesh_;
  std::int64_t vocabulary_ = 0;               // rows of the largest table: the word embedding
  std::vector<bool> absorbed_;                // per tensor
  std::vector<std::vector<DimSplit>> split_;  // per tensor, slowest first; empty: copied within the group
};

}  // namespace

Strategy transformer_expert(const OperatorGraph& graph, const CostModel& costs) {
  const std::int64_t members = tensor_degree(graph, costs.topology());
  return tensor_parallel_strategy(graph, node_mesh(costs.topology(), members, graph.batch()));
}

Strategy tensor_parallel_strategy(const OperatorGraph& graph, const DeviceMesh& mesh) {
  return TensorParallel(graph, mesh).strategy();
}

}  // namespace pipesim

#include "search/recipes/model_axes.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "models/operator_kind.h"
#include "search/baselines/heads.h"
#include "search/baselines/placement.h"

namespace pipesim {
namespace {

bool follows_output(const Operator& op, FactorIndex factor) {
  return std::ranges::any_of(
      op.uses, [&](const TensorUse& use) { return use.role == Role::Output && use.follows(factor); });
}

bool follows_weight(const Operator& op, FactorIndex factor) {
  return std::ranges::any_of(
      op.uses, [&](const TensorUse& use) { return use.role == Role::Weight && use.follows(factor); });
}

// The factors of a dimension that can be compared with those of another use of the tensor.
std::vector<FactorIndex> plain_factors(const IndexExpr& dim, const Operator& op) {
  if (dim.kind == IndexExpr::Kind::Merged) return dim.factors;
  const bool plain = dim.kind == IndexExpr::Kind::Axis && dim.offset == 0 &&
                     op.factors[static_cast<std::size_t>(dim.factors.front())].size == dim.extent;
  return plain ? dim.factors : std::vector<FactorIndex>();
}

std::int64_t factor_size(const Operator& op, FactorIndex factor) {
  return op.factors[static_cast<std::size_t>(factor)].size;
}

// Made by a matrix product from something else, or its batch: what a column-split linear divides.
bool makes_features(const Operator& op, FactorIndex factor) {
  return op.matrix && op.factors[static_cast<std::size_t>(factor)].kind == FactorKind::Parameter &&
         follows_output(op, factor) && follows_weight(op, factor) && !is_attention(op.kind);
}

bool contracts(const Operator& op, FactorIndex factor) {
  return op.matrix && op.factors[static_cast<std::size_t>(factor)].kind == FactorKind::Reduction &&
         !follows_output(op, factor) && !is_attention(op.kind) && !is_multi_head_scan(op);
}

// Returns the factor over which the rows are normalised, for an operator whose output is a scalar.
std::optional<FactorIndex> classes_of_loss(const Operator& op) {
  if (!op.uses.back().dims.empty()) return std::nullopt;
  for (const InnerStep& step : op.inner_steps) {
    if (step.over.size() == 1 &&
        op.factors[static_cast<std::size_t>(step.over.front())].kind == FactorKind::Parameter)
      return step.over.front();
  }
  return std::nullopt;
}

}  // namespace

ModelAxes::ModelAxes(const OperatorGraph& graph) : graph_(graph) {
  std::size_t factors = 0;
  for (const Operator& op : graph.operators()) {
    first_.push_back(factors);
    factors += op.factors.size();
  }
  axis_of_.resize(factors);
  std::iota(axis_of_.begin(), axis_of_.end(), std::size_t{0});
  find_axes();
  roles_.assign(factors, AxisRole::Other);
  find_roles();
}

// Disjoint sets; afterwards each factor knows the one that stands for its axis.
void ModelAxes::find_axes() {
  const auto root = [&](std::size_t f) {
    while (axis_of_[f] != f) f = axis_of_[f] = axis_of_[axis_of_[f]];
    return f;
  };
  struct Seen {
    OperatorId op;
    std::vector<FactorIndex> factors;
  };
  std::vector<std::vector<Seen>> seen(graph_.tensors().size());  // by tensor and dimension
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    const Operator& op = graph_.operators()[i];
    for (const TensorUse& use : op.uses) {
      std::vector<Seen>& dims = seen[use.tensor.index()];
      dims.resize(use.dims.size());
      for (std::size_t d = 0; d < use.dims.size(); ++d) {
        const std::vector<FactorIndex> factors = plain_factors(use.dims[d], op);
        if (factors.empty()) continue;
        const Seen& before = dims[d];
        const bool alike = before.op.valid() &&
                           std::ranges::equal(before.factors, factors, [&](FactorIndex a, FactorIndex b) {
                             return factor_size(graph_.op(before.op), a) == factor_size(op, b);
                           });
        for (std::size_t k = 0; alike && k < factors.size(); ++k) {
          const std::size_t here = first_[i] + static_cast<std::size_t>(factors[k]),
                            there = first_[before.op.index()] + static_cast<std::size_t>(before.factors[k]);
          axis_of_[root(here)] = root(there);
        }
        if (!before.op.valid()) dims[d] = {OperatorId(i), factors};
      }
    }
  }
  for (std::size_t f = 0; f < axis_of_.size(); ++f) axis_of_[f] = root(f);
}

void ModelAxes::find_roles() {
  // By axis: what speaks for and against Features.
  std::vector<bool> made(axis_of_.size()), contracted(axis_of_.size()), whole(axis_of_.size());
  std::int64_t rows = 0;  // of the largest embedding
  for (const Operator& op : graph_.operators()) {
    if (op.kind == "embedding") rows = std::max(rows, factor_size(op, op.factor("v")));
  }
  const auto set = [&](OperatorId op, FactorIndex f, AxisRole role) {
    AxisRole& now = roles_[axis(op, f)];
    if (now == AxisRole::Other) now = role;
  };
  std::vector<std::vector<std::vector<std::size_t>>> axes_of(graph_.tensors().size());  // by tensor and dim
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    const OperatorId op(i);
    const Operator& o = graph_.op(op);
    if (const auto samples = sample_factor(o)) set(op, *samples, AxisRole::Samples);
    if (is_multi_head(o)) {
      set(op, o.factor("s"), AxisRole::Sequence);
      set(op, o.factor("t"), AxisRole::Sequence);
      set(op, o.factor("g"), AxisRole::Heads);
      set(op, o.factor("r"), AxisRole::Heads);
      whole[axis(op, o.factor("e"))] = true;  // heads are divided instead
    }
    if (is_multi_head_scan(o)) {
      set(op, o.factor("s"), AxisRole::Sequence);
      set(op, o.factor("g"), AxisRole::Heads);
      set(op, o.factor("r"), AxisRole::Heads);
      const char* width = o.kind == "state_space_scan" ? "p" : "e";
      whole[axis(op, o.factor(width))] = true;  // heads are divided instead
    }
    if (o.kind == "embedding" && factor_size(o, o.factor("v")) == rows)
      set(op, o.factor("v"), AxisRole::Vocabulary);
    if (const auto words = classes_of_loss(o)) set(op, *words, AxisRole::Vocabulary);
    if (o.kind == "expert_linear") set(op, o.factor("e"), AxisRole::Experts);
    for (const InnerStep& step : o.inner_steps) {
      for (const FactorIndex f : step.over) {
        if (follows_output(o, f)) whole[axis(op, f)] = true;
      }
    }
    for (std::size_t f = 0; f < o.factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      if (makes_features(o, factor)) made[axis(op, factor)] = true;
      if (contracts(o, factor)) contracted[axis(op, factor)] = true;
      if (o.factors[f].max_degree == 1) whole[axis(op, factor)] = true;
    }
    for (const TensorUse& use : o.uses) {
      auto& dims = axes_of[use.tensor.index()];
      dims.resize(use.dims.size());
      for (std::size_t d = 0; d < use.dims.size(); ++d) {
        for (const FactorIndex f : use.dims[d].factors) dims[d].push_back(axis(op, f));
      }
    }
  }
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    for (const TensorUse& use : graph_.operators()[i].uses) {
      for (std::size_t d = 0; d < use.dims.size(); ++d) {
        const std::vector<std::size_t>& axes = axes_of[use.tensor.index()][d];
        const bool sequence =
            std::ranges::any_of(axes, [&](std::size_t a) { return roles_[a] == AxisRole::Sequence; });
        if (use.dims[d].kind == IndexExpr::Kind::Merged && sequence)
          set(OperatorId(i), use.dims[d].factors.front(), AxisRole::TokenGroups);
        if (use.dims[d].kind != IndexExpr::Kind::Whole) continue;
        for (const std::size_t a : axes) whole[a] = true;
      }
    }
  }
  for (std::size_t a = 0; a < roles_.size(); ++a) {
    if (roles_[a] == AxisRole::Other && made[a] && contracted[a] && !whole[a]) roles_[a] = AxisRole::Features;
  }
}

std::vector<FactorIndex> ModelAxes::factors(OperatorId op, AxisRole wanted) const {
  const Operator& o = graph_.op(op);
  std::vector<FactorIndex> list;
  for (std::size_t f = 0; f < o.factors.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    if (role(op, factor) != wanted || o.factors[f].max_degree == 1) continue;
    if (wanted == AxisRole::Sequence && o.factors[f].kind == FactorKind::Reduction) continue;
    list.push_back(factor);
  }
  return list;
}

bool ModelAxes::is_of_experts(OperatorId op) const {
  const Operator& o = graph_.op(op);
  const std::vector<FactorIndex> experts = factors(op, AxisRole::Experts);
  const auto runs_over_experts = [&](const TensorUse& use) {
    return std::ranges::any_of(experts, [&](FactorIndex f) { return use.follows(f); });
  };
  return !experts.empty() && std::ranges::all_of(o.uses, runs_over_experts);
}

bool ModelAxes::has(AxisRole role) const { return std::ranges::find(roles_, role) != roles_.end(); }

}  // namespace pipesim

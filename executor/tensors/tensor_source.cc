#include "executor/tensors/tensor_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "executor/tensors/fill_elements.h"
#include "sim/base/mixing.h"

namespace pipesim {
namespace {

bool is_norm(const Operator& op) { return op.kind.ends_with("_norm"); }

// How many products are added up in what the weight contributes to.
double contracted_length(const Operator& op, const TensorUse& use) {
  double length = 1;
  for (const IndexExpr& dim : use.dims) {
    const bool contracted = dim.kind == IndexExpr::Kind::Whole ||
                            std::any_of(dim.factors.begin(), dim.factors.end(), [&](FactorIndex f) {
                              return op.factors[static_cast<std::size_t>(f)].kind == FactorKind::Reduction;
                            });
    if (contracted) length *= static_cast<double>(dim.extent);
  }
  return length;
}

}  // namespace

std::vector<std::int64_t> index_bounds(const OperatorGraph& graph) {
  std::vector<std::int64_t> bounds(graph.tensors().size(), INT64_MAX);
  const auto chosen = [](const Operator& op) -> FactorIndex {
    constexpr std::array kinds{"embedding", "embedding_bag", "gather", "cross_entropy",
                               "linear_cross_entropy"};
    if (op.kind == "selected_attention") return op.factor("t");
    return std::ranges::find(kinds, op.kind) == kinds.end() ? -1 : op.factor("v");
  };
  for (std::size_t o = graph.operators().size(); o-- > 0;) {  // readers first
    const Operator& op = graph.operators()[o];
    const FactorIndex rows = chosen(op);
    const std::int64_t own = rows >= 0 ? op.factors[static_cast<std::size_t>(rows)].size : INT64_MAX;
    std::int64_t behind = INT64_MAX;
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Output) behind = std::min(behind, bounds[use.tensor.index()]);
    }
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Output) continue;
      std::int64_t& bound = bounds[use.tensor.index()];
      bound = std::min(bound, use.role == Role::Index ? own : behind);
    }
  }
  return bounds;
}

SyntheticSource::SyntheticSource(const OperatorGraph& graph) : graph_(graph), laws_(graph.tensors().size()) {
  const std::vector<std::int64_t> bounds = index_bounds(graph);
  for (std::size_t t = 0; t < laws_.size(); ++t) {
    if (graph.tensors()[t].kind == TensorKind::Data) laws_[t].below = bounds[t] == INT64_MAX ? 2 : bounds[t];
  }
  for (const Operator& op : graph.operators()) {
    int ordinal = 0;  // among uses of one role
    for (const TensorUse& use : op.uses) {
      Law& law = laws_[use.tensor.index()];
      if (use.role == Role::State) {
        law = {ordinal++ == 0 ? 0.0 : 1.0, 0, 0};  // mean, variance
      } else if (use.role == Role::Weight) {
        const double length = op.kind.starts_with("embedding") ? 400 : contracted_length(op, use);
        law.reach = length > 1 ? std::sqrt(3 / length) : 0.1;
        law.center = is_norm(op) && ordinal++ == 0 ? 1 : 0;
      }
      if (use.role != Role::State && use.role != Role::Weight) ordinal = 0;
    }
  }
}

void SyntheticSource::fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
                           const StepContext& step) const {
  const Tensor& t = graph_.tensor(tensor);
  Law law = laws_[tensor.index()];
  std::uint64_t stream = mixed_bits(step.seed) ^ hash_of(t.name);
  std::int64_t first = 0;
  if (content == Loaded::Content::Data) {
    stream = mixed_bits(stream + static_cast<std::uint64_t>(step.step));
    first = step.microbatch * t.elements();
  } else if (content == Loaded::Content::OutputGradient) {
    law = t.shape.empty() ? Law{1, 0, 0} : Law{0, 1, 0};
    stream = mixed_bits(~stream);
    first = step.microbatch * t.elements();
  } else if (content == Loaded::Content::Zero ||
             (content == Loaded::Content::State && t.kind == TensorKind::Weight)) {
    fill_zero(piece);
    return;
  }
  const auto number = [&](std::int64_t place) {
    return mixed_bits(stream ^ mixed_bits(static_cast<std::uint64_t>(first + place)));
  };
  const auto real = [&](std::int64_t place) {
    return static_cast<float>(law.center +
                              law.reach * (static_cast<double>(number(place) >> 11) * 0x1p-52 - 1));
  };
  const auto index = [&](std::int64_t place) {
    return static_cast<std::int64_t>(number(place) % static_cast<std::uint64_t>(law.below));
  };
  fill_elements(piece, t, real, index);
}

}  // namespace pipesim

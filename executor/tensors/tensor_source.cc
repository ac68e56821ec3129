#include "executor/tensors/tensor_source.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "executor/tensors/fill_elements.h"
#include "sim/base/mixing.h"

namespace pipesim {
namespace {

bool is_norm(const Operator& op) {
  return op.kind == "batch_norm" || op.kind == "layer_norm" || op.kind == "rms_norm";
}

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

std::int64_t index_bound(const OperatorGraph& graph, TensorId tensor) {
  std::int64_t bound = INT64_MAX;
  for (const UseRef ref : graph.consumers(tensor)) {
    const Operator& op = graph.op(ref.op);
    if (op.uses[static_cast<std::size_t>(ref.use)].role == Role::Index) {
      const FactorIndex v = op.kind == "embedding" || op.kind == "cross_entropy" ? op.factor("v") : -1;
      if (v >= 0) bound = std::min(bound, op.factors[static_cast<std::size_t>(v)].size);
      continue;
    }
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Output) bound = std::min(bound, index_bound(graph, use.tensor));
    }
  }
  return bound;
}

SyntheticSource::SyntheticSource(const OperatorGraph& graph) : graph_(graph), laws_(graph.tensors().size()) {
  for (std::size_t t = 0; t < laws_.size(); ++t) {
    const TensorId id(t);
    if (graph.tensor(id).kind == TensorKind::Data) {
      const std::int64_t bound = index_bound(graph, id);
      laws_[t].below = bound == INT64_MAX ? 2 : bound;
    }
  }
  for (const Operator& op : graph.operators()) {
    int ordinal = 0;  // among uses of one role
    for (const TensorUse& use : op.uses) {
      Law& law = laws_[use.tensor.index()];
      if (use.role == Role::State) {
        law = {ordinal++ == 0 ? 0.0 : 1.0, 0, 0};  // mean, variance
      } else if (use.role == Role::Weight) {
        const double length = op.kind == "embedding" ? 400 : contracted_length(op, use);
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

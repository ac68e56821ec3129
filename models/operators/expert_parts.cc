#include "models/operators/expert_parts.h"

#include <variant>

namespace pipesim {
namespace {

constexpr const char* kDispatch = "moe_dispatch";

std::int64_t integer(const Operator& op, const std::string& attribute) {
  return std::get<std::int64_t>(op.attributes.at(attribute));
}

// Experts are the third dimension from the last.
std::int32_t expert_dimension(const TensorUse& dispatched) {
  return static_cast<std::int32_t>(dispatched.dims.size()) - 3;
}

// Whether its experts take a balanced load, and no more.
bool drops_none(const OperatorGraph& graph, const Operator& dispatch) {
  const std::vector<std::int64_t>& x = graph.tensor(dispatch.uses[0].tensor).shape;
  const std::int64_t groups = dispatch.attributes.contains("groups") ? integer(dispatch, "groups") : 1;
  const auto [experts, chosen] = choice_of(dispatch);
  const std::int64_t routed = x[1] / groups * chosen;
  return integer(dispatch, "capacity") == (routed + experts - 1) / experts;
}

FactorIndex factor_of(const TensorUse& use, std::int32_t dimension) {
  const IndexExpr& dim = use.dims[static_cast<std::size_t>(dimension)];
  return dim.kind == IndexExpr::Kind::Axis ? dim.factors.front() : -1;
}

}  // namespace

ExpertChoice choice_of(const Operator& dispatch) {
  return {dispatch.factors[static_cast<std::size_t>(dispatch.factor("e"))].size, integer(dispatch, "top_k")};
}

ExpertParts find_expert_parts(const OperatorGraph& graph) {
  ExpertParts parts{std::vector<ExpertParts::OfOperator>(graph.operators().size()),
                    std::vector<std::int32_t>(graph.tensors().size(), -1),
                    {}};
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    ExpertParts::OfOperator& of = parts.operators[i];
    for (const TensorUse& use : op.uses) {
      const std::int32_t dimension = parts.dimension[use.tensor.index()];
      if (use.role != Role::Input || dimension < 0) continue;
      of = {factor_of(use, dimension), factor_of(use, dimension + 1)};
    }
    const bool dispatch = op.kind == kDispatch && drops_none(graph, op);
    if (dispatch) {
      of = {op.factor("e"), -1};
      parts.dispatches.emplace_back(i);
    }
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output || of.experts < 0) continue;
      for (std::size_t d = 0; d + 1 < use.dims.size(); ++d) {
        const auto dimension = static_cast<std::int32_t>(d);
        if (factor_of(use, dimension) != of.experts) continue;
        if (dispatch ? dimension == expert_dimension(use) : factor_of(use, dimension + 1) == of.slots)
          parts.dimension[use.tensor.index()] = dimension;
      }
    }
  }
  return parts;
}

}  // namespace pipesim

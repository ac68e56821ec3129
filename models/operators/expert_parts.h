#pragma once

#include <cstdint>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// Where the tokens of experts are in a model that drops none.
///
/// Found from `moe_dispatch` on: its output [.., experts, slots, width], and what operators make of it that
/// keep the two dimensions apart. A dispatch whose experts take more or less than a balanced load, tokens ·
/// top_k / experts, fills them up and drops what is above; it is left out.
struct ExpertParts {
  struct OfOperator {
    FactorIndex experts = -1;  ///< −1: it has no tokens of experts
    FactorIndex slots = -1;    ///< the tokens of an expert; −1: the operator has no such factor
    bool operator==(const OfOperator&) const = default;
  };
  std::vector<OfOperator> operators;
  std::vector<std::int32_t> dimension;  ///< by tensor, of the experts; −1: none
  std::vector<OperatorId> dispatches;   ///< that drop no token
};
ExpertParts find_expert_parts(const OperatorGraph& graph);

/// Experts of a dispatch, and how many of them a token goes to.
struct ExpertChoice {
  std::int64_t experts = 1, chosen = 1;
};
ExpertChoice choice_of(const Operator& dispatch);

}  // namespace pipesim

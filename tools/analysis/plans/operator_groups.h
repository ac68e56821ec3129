#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// Operators that a report describes with the same words, in one line.
struct OperatorGroup {
  std::string words;
  std::vector<OperatorId> operators;
  Nanoseconds compute = 0;  ///< of all of them
};

/// Groups operators with equal words, the most compute first, then by words. `words` and `compute`: one per
/// operator; without words an operator belongs to no group.
std::vector<OperatorGroup> group_operators(std::span<const std::string> words,
                                           std::span<const Nanoseconds> compute);

/// "conv1, conv2, …": the first `most` names.
std::string some_names(const OperatorGraph& graph, const OperatorGroup& group, std::size_t most);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// The role of a range of indices in the parallelism of a transformer.
enum class AxisRole : std::uint8_t {
  Other,
  Samples,
  Sequence,    ///< of queries; keys, which attention runs over, are of the same axis
  Heads,       ///< of attention and scans: groups of heads, and heads within a group
  Features,    ///< made by one matrix product and contracted by another, such as those of a feed-forward part
  Vocabulary,  ///< rows of the largest embedding, and what the loss runs over
  TokenGroups,  ///< groups of neighbouring positions of the sequence, which experts take tokens from
  Experts       ///< each index has weights of its own
};

/// The axes of a model. Factors of two operators are of one axis when they index the same dimension of a
/// tensor, directly or through other operators. Roles follow from what the operators do along an axis, so
/// they hold for imported models as well.
///
/// An axis that is needed whole somewhere has no use for a split and is not Features: a dimension that an
/// operator takes whole, or one that norms and softmax normalise over. The residual stream is such an axis.
class ModelAxes {
 public:
  explicit ModelAxes(const OperatorGraph& graph);

  [[nodiscard]] AxisRole role(OperatorId op, FactorIndex factor) const { return roles_[axis(op, factor)]; }
  /// The operator's factors with this role, in their order, but not the keys of attention.
  [[nodiscard]] std::vector<FactorIndex> factors(OperatorId op, AxisRole role) const;
  [[nodiscard]] bool has(AxisRole role) const;
  /// Whether every tensor of the operator runs over experts. That holds for products with experts' weights
  /// and for what lies between these; not for operators that hand tokens out to experts, or add up their
  /// results.
  [[nodiscard]] bool is_of_experts(OperatorId op) const;

 private:
  [[nodiscard]] std::size_t axis(OperatorId op, FactorIndex factor) const {
    return axis_of_[first_[op.index()] + static_cast<std::size_t>(factor)];
  }
  void find_axes();
  void find_roles();

  const OperatorGraph& graph_;
  std::vector<std::size_t> first_;    // by operator: the number of its first factor
  std::vector<std::size_t> axis_of_;  // by factor of all operators: a factor that stands for its axis
  std::vector<AxisRole> roles_;       // by factor, read at those that stand for an axis
};

}  // namespace pipesim

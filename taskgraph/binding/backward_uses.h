#pragma once

#include <span>
#include <vector>

#include "models/backward_need.h"
#include "models/operator_graph.h"
#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

/// The part of training that comes after forward: which operators have a backward pass, which uses of tensors
/// make gradients, and which weights are updated.
class BackwardUses {
 public:
  /// `trained` false: there is no backward and no update at all. The graph must outlive this.
  BackwardUses(const OperatorGraph& graph, bool trained);

  [[nodiscard]] const BackwardNeed& need(OperatorId op) const { return needs_[op.index()]; }
  /// Whether this use's gradient is computed.
  [[nodiscard]] bool makes_gradient(UseRef use) const;
  /// The consumers of a tensor that compute a gradient of it.
  [[nodiscard]] std::span<const UseRef> gradient_makers(TensorId tensor) const {
    return gradient_makers_[tensor.index()];
  }
  /// The use that makes an activation. Its operator is invalid for data and weights.
  [[nodiscard]] UseRef producing_use(TensorId tensor) const { return producing_uses_[tensor.index()]; }
  /// Whether the gradient of an activation is sent to its producer.
  [[nodiscard]] bool has_backward(TensorId tensor) const;
  /// Weights that the operator's update tasks update: the operator is the first to use them.
  [[nodiscard]] std::span<const TensorId> owned_weights(OperatorId op) const {
    return owned_weights_[op.index()];
  }
  /// Weights that no gradient reaches.
  [[nodiscard]] std::span<const TensorId> frozen_weights() const { return frozen_weights_; }
  /// Those among them that the operator is the first to use.
  [[nodiscard]] std::span<const TensorId> frozen_weights(OperatorId op) const {
    return frozen_weights_of_[op.index()];
  }

 private:
  const OperatorGraph* graph_;
  std::vector<BackwardNeed> needs_;                   // per operator
  std::vector<std::vector<UseRef>> gradient_makers_;  // per tensor
  std::vector<UseRef> producing_uses_;                // per tensor
  std::vector<std::vector<TensorId>> owned_weights_;  // per operator
  std::vector<TensorId> frozen_weights_;
  std::vector<std::vector<TensorId>> frozen_weights_of_;  // per operator
};

}  // namespace pipesim

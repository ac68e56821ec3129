#include "taskgraph/binding/backward_uses.h"

#include <algorithm>
#include <iterator>

namespace pipesim {

BackwardUses::BackwardUses(const OperatorGraph& graph, bool trained)
    : graph_(&graph),
      needs_(graph.operators().size()),
      gradient_makers_(graph.tensors().size()),
      producing_uses_(graph.tensors().size()),
      owned_weights_(graph.operators().size()),
      frozen_weights_of_(graph.operators().size()) {
  for (std::size_t i = 0; i < needs_.size(); ++i) {
    if (trained) needs_[i] = backward_need(graph, OperatorId(i));
    const std::vector<TensorUse>& uses = graph.operators()[i].uses;
    for (std::size_t u = 0; u < uses.size(); ++u) {
      if (uses[u].role == Role::Output)
        producing_uses_[uses[u].tensor.index()] = {OperatorId(i), static_cast<std::int32_t>(u)};
    }
  }
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const auto consumers = graph.consumers(TensorId(t));
    std::ranges::copy_if(consumers, std::back_inserter(gradient_makers_[t]),
                         [&](UseRef u) { return makes_gradient(u); });
    if (graph.tensors()[t].kind != TensorKind::Weight || consumers.empty()) continue;
    const bool updated = !gradient_makers_[t].empty();
    const std::size_t first = consumers.front().op.index();
    (updated ? owned_weights_ : frozen_weights_of_)[first].emplace_back(t);
    if (!updated) frozen_weights_.emplace_back(t);
  }
}

bool BackwardUses::makes_gradient(UseRef ref) const {
  const TensorUse& use = graph_->op(ref.op).uses[static_cast<std::size_t>(ref.use)];
  const BackwardNeed& backward = need(ref.op);
  if (!graph_->wants_gradient(use.tensor)) return false;
  if (use.role == Role::Weight) return backward.weight_pass || backward.input_pass;
  return use.role == Role::Input && backward.input_pass;
}

bool BackwardUses::has_backward(TensorId tensor) const {
  const OperatorId producer = producing_use(tensor).op;
  if (!producer.valid() || gradient_makers(tensor).empty()) return false;
  return need(producer).input_pass || need(producer).weight_pass;
}

}  // namespace pipesim

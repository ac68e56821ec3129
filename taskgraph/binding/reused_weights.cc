#include "taskgraph/binding/reused_weights.h"

#include <algorithm>

namespace pipesim {
namespace {

// Calls visit(weight) for each weight that the operator uses, once.
template <class Visit>
void for_each_weight(const OperatorGraph& graph, OperatorId op, Visit visit) {
  const std::vector<TensorUse>& uses = graph.op(op).uses;
  for (auto use = uses.begin(); use != uses.end(); ++use) {
    const bool again = std::any_of(uses.begin(), use,
                                   [&](const TensorUse& earlier) { return earlier.tensor == use->tensor; });
    if (!again && graph.tensor(use->tensor).kind == TensorKind::Weight) visit(use->tensor);
  }
}

// The operators that use weights after forward, in order.
std::vector<OperatorId> runs_after_forward(const OperatorGraph& graph, const BackwardUses& backward,
                                           const Recomputation& recomputation) {
  std::vector<OperatorId> runs;
  auto segment = recomputation.segments().begin();
  const auto none = recomputation.segments().end();
  for (std::size_t i = graph.operators().size(); i-- > 0;) {
    for (; segment != none && segment->last == OperatorId(i); ++segment)
      runs.insert(runs.end(), segment->operators.begin(), segment->operators.end());
    const BackwardNeed& need = backward.need(OperatorId(i));
    if (need.input_pass || need.weight_pass) runs.emplace_back(i);
  }
  return runs;
}

}  // namespace

std::vector<bool> reused_weights(const OperatorGraph& graph, const BackwardUses& backward,
                                 const Recomputation& recomputation, std::int64_t distance) {
  const std::size_t tensors = graph.tensors().size();
  std::vector<std::int64_t> last_end(tensors, 0);  // elements used until the end of the last use in forward
  std::int64_t used = 0;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    for_each_weight(graph, OperatorId(i), [&](TensorId w) { used += graph.tensor(w).elements(); });
    for_each_weight(graph, OperatorId(i), [&](TensorId w) { last_end[w.index()] = used; });
  }
  std::vector<bool> met(tensors, false), stays(tensors, false);
  for (const OperatorId op : runs_after_forward(graph, backward, recomputation)) {
    for_each_weight(graph, op, [&](TensorId w) {
      if (!met[w.index()]) stays[w.index()] = used - last_end[w.index()] < distance;
      met[w.index()] = true;
    });
    for_each_weight(graph, op, [&](TensorId w) { used += graph.tensor(w).elements(); });
  }
  return stays;
}

}  // namespace pipesim

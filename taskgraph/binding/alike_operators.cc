#include "taskgraph/binding/alike_operators.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace pipesim {
namespace {

// What is left when names and tensors are taken away.
Operator nameless(const Operator& op) {
  Operator copy = op;
  copy.name.clear();
  copy.repeat.clear();
  for (TensorUse& use : copy.uses) use.tensor = TensorId();
  return copy;
}

bool alike(const OperatorGraph& graph, TensorId a, TensorId b) {
  return graph.tensor(a).type == graph.tensor(b).type && graph.tensor(a).kind == graph.tensor(b).kind &&
         graph.wants_gradient(a) == graph.wants_gradient(b) &&
         graph.gets_gradient(a) == graph.gets_gradient(b);
}

bool tensors_alike(const OperatorGraph& graph, const Operator& a, const Operator& b) {
  return std::ranges::equal(a.uses, b.uses, [&](const TensorUse& x, const TensorUse& y) {
    return alike(graph, x.tensor, y.tensor);
  });
}

}  // namespace

std::vector<OperatorId> first_alike(const OperatorGraph& graph) {
  std::map<std::string, std::vector<std::pair<Operator, OperatorId>>> kinds;  // nameless, and the first such
  std::vector<OperatorId> result;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    Operator wanted = nameless(op);
    auto& known = kinds[op.kind];
    const auto it = std::ranges::find_if(known, [&](const auto& k) {
      return k.first == wanted && tensors_alike(graph, graph.op(k.second), op);
    });
    result.push_back(it == known.end() ? OperatorId(i) : it->second);
    if (it == known.end()) known.emplace_back(std::move(wanted), OperatorId(i));
  }
  return result;
}

}  // namespace pipesim

#include "search/move_units.h"

#include <map>
#include <string>
#include <utility>

namespace pipesim {
namespace {

// The first weight that an operator shares with another; invalid where it shares none.
TensorId shared_weight(const OperatorGraph& graph, OperatorId op) {
  for (const TensorUse& use : graph.op(op).uses) {
    if (graph.tensor(use.tensor).kind == TensorKind::Weight && graph.consumers(use.tensor).size() > 1)
      return use.tensor;
  }
  return {};
}

}  // namespace

MoveUnits single_operators(const CandidateSet& candidates) {
  MoveUnits units;
  for (std::size_t i = 0; i < candidates.graph().operators().size(); ++i) units.push_back({OperatorId(i)});
  return units;
}

MoveUnits repeated_operators(const CandidateSet& candidates) {
  const OperatorGraph& graph = candidates.graph();
  MoveUnits units;
  std::map<std::pair<std::string, std::size_t>, std::size_t> unit_of;  // by label and class of configs
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const OperatorId op(i);
    std::string label = graph.op(op).repeat;
    const TensorId weight = label.empty() ? shared_weight(graph, op) : TensorId();
    if (weight.valid()) label = "weight " + graph.tensor(weight).name;
    if (!label.empty()) {
      const auto [it, is_new] = unit_of.try_emplace({label, candidates.class_of(op)}, units.size());
      if (!is_new) {
        units[it->second].push_back(op);
        continue;
      }
    }
    units.push_back({op});
  }
  return units;
}

void make_alike(const CandidateSet& candidates, const MoveUnits& units, std::vector<std::size_t>& configs) {
  for (const std::vector<OperatorId>& unit : units) {
    const std::size_t first = configs[unit.front().index()];
    if (first >= candidates.size(unit.front())) continue;
    for (const OperatorId op : unit) configs[op.index()] = first;
  }
}

}  // namespace pipesim

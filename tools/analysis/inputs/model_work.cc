#include "tools/analysis/inputs/model_work.h"

#include <fmt/format.h>

#include "models/box.h"

namespace pipesim {

std::vector<OperatorWork> work_of_operators(const OperatorGraph& graph) {
  std::vector<OperatorWork> work;
  std::vector<bool> counted(graph.tensors().size());
  for (const Operator& op : graph.operators()) {
    OperatorWork& of = work.emplace_back();
    of.forward = Flops(evaluate(op.flops_forward, whole_ranges(op)));
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Weight || counted[use.tensor.index()]) continue;
      counted[use.tensor.index()] = true;
      of.parameters += graph.tensor(use.tensor).elements();
    }
  }
  return work;
}

std::string factors_text(const Operator& op) {
  std::string text;
  for (const Factor& factor : op.factors)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", factor.name, factor.size);
  return text;
}

}  // namespace pipesim

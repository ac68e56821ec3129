#include "search/evaluator.h"

namespace pipesim {

Evaluator::Evaluator(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options)
    : builder_(graph, costs, options) {}

bool Evaluator::limit_memory() {
  constexpr Bytes kMostBytes(500'000'000);
  return builder_.forget_plans(kMostBytes);
}

Evaluation Evaluator::evaluate(const BoundStrategy& strategy) {
  limit_memory();
  return evaluate_kept(strategy);
}

Evaluation Evaluator::evaluate_kept(const BoundStrategy& strategy) {
  return score(strategy, TaskGraphBuilder::Labels::Leave);
}

Evaluation Evaluator::evaluate_labelled(const BoundStrategy& strategy) {
  limit_memory();
  return score(strategy, TaskGraphBuilder::Labels::Make);
}

Evaluation Evaluator::score(const BoundStrategy& strategy, TaskGraphBuilder::Labels labels) {
  builder_.build(strategy, graph_, labels);
  simulate(graph_.dag, scratch_, timeline_);
  Evaluation result{timeline_.makespan, Bytes(0)};
  if (!surely_fits(strategy))
    result.overflow = memory_overflow(peak_memory(builder_, strategy, timeline_), topology());
  return result;
}

bool Evaluator::surely_fits(const BoundStrategy& strategy) {
  const std::vector<Bytes> allocated = allocated_memory(builder_, strategy);
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    if (allocated[d] > topology().kind(DeviceId(d)).memory) return false;
  }
  return true;
}

}  // namespace pipesim

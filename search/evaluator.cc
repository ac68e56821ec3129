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
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

Evaluation Evaluator::evaluate_labelled(const BoundStrategy& strategy) {
  limit_memory();
  return simulate_all(strategy, TaskGraphBuilder::Labels::Make);
}

Evaluation Evaluator::simulate_all(const BoundStrategy& strategy, TaskGraphBuilder::Labels labels) {
  builder_.build(strategy, graph_, labels);
  simulate(graph_.dag, scratch_, timeline_);
  Evaluation result{timeline_.makespan, Bytes(0)};
  if (!surely_fits(strategy))
    result.overflow = memory_overflow(peak_memory(builder_, strategy, timeline_), topology());
  return result;
}

Evaluation Evaluator::score(const BoundStrategy& strategy) {
  for (const std::int32_t few : few_microbatches(builder_, strategy)) {
    builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, few);
    simulate(graph_.dag, scratch_, timeline_);
    const auto steady = find_steady_state(builder_, strategy, graph_, timeline_);
    if (!steady) continue;
    Evaluation result{steady->time_of(timeline_.makespan), Bytes(0)};
    if (!surely_fits(strategy))
      result.overflow = memory_overflow(peak_memory(builder_, strategy, timeline_, *steady), topology());
    return result;
  }
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

bool Evaluator::surely_fits(const BoundStrategy& strategy) {
  const std::vector<Bytes> allocated = allocated_memory(builder_, strategy);
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    if (allocated[d] > topology().kind(DeviceId(d)).memory) return false;
  }
  return true;
}

}  // namespace pipesim

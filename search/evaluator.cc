#include "search/evaluator.h"

#include <utility>

#include "taskgraph/expansion.h"

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
  const std::vector<std::int32_t> tried = few_microbatches(builder_, strategy);
  const std::optional<Folding> folding = fold(strategy);
  for (const std::int32_t few : tried) {
    if (const auto result = score_few(strategy, few, folding)) return *result;
  }
  if (folding) return *score_few(strategy, builder_.options().microbatches, folding);
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

std::optional<Folding> Evaluator::fold(const BoundStrategy& strategy) {
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  if (tasks * static_cast<std::size_t>(builder_.options().microbatches) < fold_from_) return std::nullopt;
  builder_.build_unordered(strategy, graph_);
  return Folding::find(builder_, strategy, graph_.dag);
}

std::optional<Evaluation> Evaluator::score_few(const BoundStrategy& strategy, std::int32_t few,
                                               const std::optional<Folding>& folding) {
  std::optional<SteadyState> steady;
  TaskTimes times{timeline_, few, 0, {}};
  if (folding) {
    FewMicrobatches tasks = folding->build(builder_, strategy, few, graph_.dag, timeline_);
    times.of_one = folding->classes_of_one();
    times.folded = folding->class_of();
    simulate(graph_.dag, scratch_, timeline_);
    steady = few == builder_.options().microbatches ? SteadyState() : find_steady_state(std::move(tasks));
  } else {
    builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, few);
    times.of_one = builder_.tasks_of_one_microbatch();
    simulate(graph_.dag, scratch_, timeline_);
    steady = find_steady_state(builder_, strategy, graph_, timeline_);
  }
  if (!steady) return std::nullopt;
  Evaluation result{steady->time_of(timeline_.makespan), Bytes(0)};
  if (!surely_fits(strategy))
    result.overflow = memory_overflow(peak_memory(builder_, strategy, times, *steady), topology());
  return result;
}

bool Evaluator::surely_fits(const BoundStrategy& strategy) {
  const std::vector<Bytes> allocated = allocated_memory(builder_, strategy);
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    if (allocated[d] > topology().usable_memory(DeviceId(d))) return false;
  }
  return true;
}

}  // namespace pipesim

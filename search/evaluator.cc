#include "search/evaluator.h"

#include <utility>

#include "sim/base/errors.h"
#include "taskgraph/expansion.h"

namespace pipesim {
namespace {

// `tasks` are those of so many microbatches. Labels are made only when they are needed.
void simulate_or_explain(TaskGraphBuilder& builder, const BoundStrategy& strategy, std::int32_t microbatches,
                         TaskGraph& tasks, SimulationScratch& scratch, Timeline& timeline) {
  try {
    simulate(tasks.dag, scratch, timeline);
  } catch (const DependencyCycle&) {
    builder.build(strategy, tasks, TaskGraphBuilder::Labels::Make, microbatches);
    throw InputError(
        describe_deadlock(find_cycle(tasks.dag), tasks, builder.graph(), builder.costs().topology()));
  }
}

}  // namespace

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

void Evaluator::simulate_tasks(const BoundStrategy& strategy, std::int32_t microbatches) {
  simulate_or_explain(builder_, strategy, microbatches, graph_, scratch_, timeline_);
}

Evaluation Evaluator::simulate_all(const BoundStrategy& strategy, TaskGraphBuilder::Labels labels) {
  std::optional<Evaluation> stream;
  if (builder_.versions().several()) stream = score_stream(strategy);
  builder_.build(strategy, graph_, labels);
  simulate_tasks(strategy, builder_.options().microbatches);
  if (stream) return *stream;
  Evaluation result{timeline_.makespan, Bytes(0)};
  if (!surely_fits(strategy))
    result.overflow = memory_overflow(peak_memory(builder_, strategy, timeline_), topology());
  return result;
}

namespace {

// From when the microbatches of the second half began their way.
SteadyWindow second_half(const TaskGraphBuilder& builder, const Timeline& timeline) {
  const std::int32_t every = builder.block().microbatches, blocks = builder.built_microbatches() / every;
  const auto begin = [&](std::int32_t block) {
    const TaskId first = builder.tasks_of(OperatorId(0), block * every).forward;
    return timeline.start[first.index()];
  };
  return {begin(blocks / 2), begin(blocks - 1), blocks - 1 - blocks / 2};
}

}  // namespace

Evaluation Evaluator::score_stream(const BoundStrategy& strategy) {
  SteadyWindow window;
  for (const std::int32_t microbatches : stream_lengths(builder_, strategy)) {
    builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, microbatches);
    simulate_tasks(strategy, microbatches);
    window = second_half(builder_, timeline_);
    const auto steady = find_steady_stream(builder_, strategy, graph_, timeline_);
    if (steady) window = *steady;
    if (steady) break;
  }
  const std::int64_t all = builder_.options().microbatches,
                     each = std::int64_t{window.microbatches} * builder_.block().microbatches;
  Evaluation result{(all * window.length() + each - 1) / each, Bytes(0)};
  if (!surely_fits(strategy))
    result.overflow = memory_overflow(peak_memory(builder_, strategy, timeline_), topology());
  return result;
}

Evaluation Evaluator::score(const BoundStrategy& strategy) {
  if (builder_.versions().several()) return score_stream(strategy);
  const std::vector<std::int32_t> tried = few_microbatches(builder_, strategy);
  const std::optional<Folding> folding = fold(strategy);
  for (const std::int32_t few : tried) {
    if (const auto result = score_few(strategy, few, folding)) return *result;
  }
  if (folding) return *score_few(strategy, builder_.options().microbatches, folding);
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

std::optional<Folding> Evaluator::fold(const BoundStrategy& strategy) {
  if (builder_.ways() > 1) return std::nullopt;
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
    simulate_tasks(strategy, few);
    steady = few == builder_.options().microbatches ? SteadyState() : find_steady_state(std::move(tasks));
  } else {
    builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, few);
    times.of_one = builder_.tasks_of_one_microbatch();
    simulate_tasks(strategy, few);
    steady = find_steady_state(builder_, strategy, graph_, timeline_);
  }
  if (!steady) return std::nullopt;
  times.block = folding ? TaskBlock{1, times.of_one} : builder_.block();
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

std::vector<DeviceMemory> stream_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy) {
  TaskGraph tasks;
  const std::int32_t microbatches = stream_lengths(builder, strategy).front();
  builder.build(strategy, tasks, TaskGraphBuilder::Labels::Leave, microbatches);
  SimulationScratch scratch;
  Timeline timeline;
  simulate_or_explain(builder, strategy, microbatches, tasks, scratch, timeline);
  return peak_memory(builder, strategy, timeline);
}

}  // namespace pipesim

#include "search/evaluator.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/proofs/find_folding.h"
#include "taskgraph/proofs/unfolded_end.h"

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
  folding_.reset();
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

Evaluation Evaluator::evaluate_labelled(const BoundStrategy& strategy) {
  limit_memory();
  folding_.reset();
  return simulate_all(strategy, TaskGraphBuilder::Labels::Make);
}

void Evaluator::simulate_tasks(const BoundStrategy& strategy, std::int32_t microbatches) {
  simulate_or_explain(builder_, strategy, microbatches, graph_, scratch_, timeline_);
}

Evaluation Evaluator::simulate_all(const BoundStrategy& strategy, TaskGraphBuilder::Labels labels) {
  std::optional<Evaluation> stream;
  if (builder_.versions().several())
    stream = score_stream(strategy, labels == TaskGraphBuilder::Labels::Make);
  builder_.build(strategy, graph_, labels);
  simulate_tasks(strategy, builder_.options().microbatches);
  if (stream) return *stream;
  Evaluation result{timeline_.makespan, Bytes(0)};
  if (wanted_peaks_ || !surely_fits(strategy))
    result.overflow = overflow(peak_memory(builder_, strategy, timeline_));
  return result;
}

namespace {

// From when the microbatches of the second half, or the last quarter, began their way.
SteadyWindow last_part(const TaskGraphBuilder& builder, const Timeline& timeline, std::int32_t part) {
  const std::int32_t every = builder.block().microbatches, blocks = builder.built_microbatches() / every;
  const auto begin = [&](std::int32_t block) {
    const TaskId first = builder.tasks_of(OperatorId(0), block * every).forward;
    return timeline.start[first.index()];
  };
  const std::int32_t first = blocks - 1 - (blocks - 1) / part;
  return {begin(first), begin(blocks - 1), std::max(1, blocks - 1 - first)};
}

}  // namespace

Evaluation Evaluator::score_stream(const BoundStrategy& strategy, bool tell_memory) {
  SteadyWindow window, quarter;
  bool proven = false;
  for (const std::int32_t microbatches : stream_lengths(builder_, strategy)) {
    builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, microbatches);
    simulate_tasks(strategy, microbatches);
    const auto steady = find_steady_stream(builder_, strategy, graph_, timeline_);
    proven = steady.has_value();
    window = proven ? *steady : last_part(builder_, timeline_, 2);
    quarter = proven ? *steady : last_part(builder_, timeline_, 4);
    if (proven) break;
  }
  const auto iteration = [&](const SteadyWindow& w) {
    const std::int64_t all = builder_.options().microbatches,
                       each = std::int64_t{w.microbatches} * builder_.block().microbatches;
    return (all * w.length() + each - 1) / each;
  };
  Evaluation result{iteration(window), Bytes(0), proven, std::abs(iteration(window) - iteration(quarter))};
  const bool fits = surely_fits(strategy);
  stream_memory_.clear();
  if (tell_memory || wanted_peaks_ || !fits) stream_memory_ = peak_memory(builder_, strategy, timeline_);
  if (wanted_peaks_ || !fits) result.overflow = overflow(stream_memory_);
  return result;
}

Evaluation Evaluator::score(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks) {
  struct Wanted {
    std::vector<DeviceMemory>*& by;
    ~Wanted() { by = nullptr; }
  } const until_scored{wanted_peaks_};
  wanted_peaks_ = &peaks;
  return score(strategy);
}

Evaluation Evaluator::score(const BoundStrategy& strategy) {
  folding_.reset();
  if (builder_.versions().several()) return score_stream(strategy);
  const std::vector<std::int32_t> tried = few_microbatches(builder_, strategy);
  std::optional<Folding> of_steps;
  folding_ = fold(strategy, tried.empty() ? builder_.options().microbatches : tried.front(), of_steps);
  if (!folding_) return score_as_it_is(strategy, tried);
  struct Folded {
    TaskGraphBuilder& builder;
    ~Folded() { builder.fold_by(nullptr); }
  } const until_scored{builder_};
  if (of_steps) {
    if (const auto result = score_folded_further(*of_steps, tried)) return *result;
  }
  builder_.fold_by(&*folding_);
  return score_as_it_is(folding_->strategy(), tried);
}

Evaluation Evaluator::score_as_it_is(const BoundStrategy& strategy, std::span<const std::int32_t> tried) {
  for (const std::int32_t few : tried) {
    if (const auto result = score_few(strategy, few)) return *result;
  }
  return simulate_all(strategy, TaskGraphBuilder::Labels::Leave);
}

// The devices' steps are simulated for fewer devices than the synchronisation of weights that follows them.
std::optional<Evaluation> Evaluator::score_folded_further(const Folding& of_steps,
                                                          std::span<const std::int32_t> tried) {
  const std::int32_t all = builder_.options().microbatches;
  std::vector<std::int32_t> numbers(tried.begin(), tried.end());
  numbers.push_back(all);
  for (const std::int32_t few : numbers) {
    builder_.fold_by(&of_steps);
    builder_.build(of_steps.strategy(), graph_, TaskGraphBuilder::Labels::Leave, few);
    simulate_or_explain(builder_, of_steps.strategy(), few, graph_, scratch_, timeline_);
    std::optional<SteadyState> steady;
    if (few < all) {
      steady = find_steady_state(builder_, of_steps.strategy(), graph_, timeline_);
      if (!steady) continue;
      if (steady->windows.size() > 1) return std::nullopt;
    }
    LastStepsSimulation last(builder_, of_steps, *folding_, graph_, timeline_);
    MemoryChanges in_steps, of_last;
    const bool fits = !wanted_peaks_ && surely_fits(of_steps);
    const std::size_t of_one = builder_.tasks_of_one_microbatch();
    if (!fits) {
      const std::int32_t first = last.last().first_microbatch, end = first + last.last().microbatches;
      for (const auto& [from, to] : {std::pair(0, first), std::pair(end, few)})
        add_memory_changes(builder_, of_steps.strategy(), {timeline_, to, of_one, {1, of_one}, from},
                           in_steps);
    }
    if (!last.run(last_steps_, scratch_, of_last_steps_)) return std::nullopt;
    if (steady && last.begin() < steady->windows.front().end) continue;
    Evaluation result{steady ? steady->time_of(last.makespan()) : last.makespan(), Bytes(0)};
    if (fits) return result;
    const TaskTimes times{of_last_steps_, builder_.built_microbatches(), builder_.tasks_of_one_microbatch()};
    add_memory_changes(builder_, folding_->strategy(), times, of_last);
    result.overflow = overflow(
        peak_memory(builder_.permanent_memory(folding_->strategy()), of_steps, in_steps, *folding_, of_last));
    return result;
  }
  return std::nullopt;
}

std::optional<Folding> Evaluator::fold(const BoundStrategy& strategy, std::int32_t microbatches,
                                       std::optional<Folding>& of_steps) {
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  if (tasks * static_cast<std::size_t>(microbatches) < fold_from_) return std::nullopt;
  if (not_looked_for_ < found_none_) return ++not_looked_for_, std::nullopt;
  std::optional<Folding> found =
      find_folding(builder_, strategy, builder_.options().pipeline ? &of_steps : nullptr);
  constexpr std::int32_t kMost = 15;
  found_none_ = found ? 0 : std::min(kMost, 2 * found_none_ + 1);
  not_looked_for_ = 0;
  return found;
}

std::optional<Evaluation> Evaluator::score_few(const BoundStrategy& strategy, std::int32_t few) {
  builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave, few);
  simulate_tasks(strategy, few);
  const auto steady = find_steady_state(builder_, strategy, graph_, timeline_);
  if (!steady) return std::nullopt;
  Evaluation result{steady->time_of(timeline_.makespan), Bytes(0)};
  if (wanted_peaks_ || !surely_fits(strategy)) {
    const TaskTimes times{timeline_, few, builder_.tasks_of_one_microbatch(), builder_.block()};
    result.overflow = overflow(peak_memory(builder_, strategy, times, *steady));
  }
  return result;
}

Bytes Evaluator::overflow(const std::vector<DeviceMemory>& peaks) {
  const std::vector<DeviceMemory> all = folding_ ? folding_->unfolded(peaks) : peaks;
  if (wanted_peaks_) *wanted_peaks_ = all;
  return memory_overflow(all, topology());
}

bool Evaluator::surely_fits(const BoundStrategy& strategy) {
  std::vector<Bytes> allocated = allocated_memory(builder_, strategy);
  if (folding_) allocated = folding_->unfolded(allocated);
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    if (allocated[d] > topology().usable_memory(DeviceId(d))) return false;
  }
  return true;
}

// Devices that are alike in all steps keep different weights.
bool Evaluator::surely_fits(const Folding& of_steps) {
  const std::vector<Bytes> allocated = allocated_memory(builder_, of_steps.strategy());
  const std::vector<WeightMemory> permanent = builder_.permanent_memory(of_steps.strategy());
  const auto sum = [](const WeightMemory& m) { return m.weights + m.gradients + m.optimizer_state; };
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    const std::size_t as = of_steps.stands_for(DeviceId(d)).index();
    if (allocated[as] - sum(permanent[as]) + sum(permanent[d]) > topology().usable_memory(DeviceId(d)))
      return false;
  }
  return true;
}

}  // namespace pipesim

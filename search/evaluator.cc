#include "search/evaluator.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/proofs/least_makespan.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNoLimit = std::numeric_limits<Nanoseconds>::max();

}  // namespace

Evaluator::Evaluator(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options)
    : contents_(graph, costs, options), expanded_(contents_) {}

void Evaluator::set_pipeline(std::optional<Pipeline> pipeline, Recompute recompute) {
  contents_ = contents_.with(std::move(pipeline), std::move(recompute));
}

const ExpandedStrategy& Evaluator::expand_unordered(const BoundStrategy& strategy) {
  expanded_.expand_unordered(strategy);
  return expanded_;
}

bool Evaluator::limit_memory() {
  constexpr Bytes kMostBytes(500'000'000);
  return contents_.forget_plans(kMostBytes);
}

Bytes Evaluator::bytes() const {
  const TaskDag& tasks = task_graph().dag;
  return contents_.bytes() + Bytes(static_cast<std::int64_t>(tasks.bytes() + scratch_.bytes()));
}

Evaluation Evaluator::evaluate(const BoundStrategy& strategy) {
  limit_memory();
  begin(strategy);
  return simulate_all(strategy, {});
}

Evaluation Evaluator::evaluate_labelled(const BoundStrategy& strategy) {
  limit_memory();
  begin(strategy);
  return simulate_all(strategy, {.labels = Labels::Make});
}

void Evaluator::begin(const BoundStrategy& strategy) {
  scored_ = strategy;
  generation_ = contents_.generation();
  folding_ = nullptr;
  steady_.reset();
}

void Evaluator::expand(const BoundStrategy& strategy, const ExpansionSetting& setting) {
  setting_ = setting;
  expanded_.expand(strategy, setting);
}

// Labels are made only when they are needed.
void Evaluator::simulate() {
  try {
    pipesim::simulate(expanded_.dag(), scratch_, timeline_);
  } catch (const DependencyCycle&) {
    setting_.labels = Labels::Make;
    expanded_.expand(BoundStrategy(expanded_.strategy()), setting_);
    throw InputError(describe_deadlock(find_cycle(expanded_.dag()), expanded_.graph(), graph(), topology()));
  }
}

Evaluation Evaluator::simulate_all(const BoundStrategy& strategy, const ExpansionSetting& setting) {
  std::optional<Evaluation> stream;
  if (contents_.versions().several()) stream = score_stream(strategy, setting.labels == Labels::Make);
  simulate(strategy, setting);
  return stream ? *stream : judge_all();
}

// All microbatches were simulated.
Evaluation Evaluator::judge_all() {
  Evaluation result{timeline_.makespan, Bytes(0)};
  if (wanted_peaks_ || !surely_fits()) result.overflow = overflow(peak_memory(expanded_, timeline_));
  return result;
}

namespace {

// Returns the window in which the microbatches of the last half, or of the last quarter, began their way.
SteadyWindow last_part(const ExpandedStrategy& expanded, const Timeline& timeline, std::int32_t part) {
  const std::int32_t every = expanded.block().microbatches, blocks = expanded.microbatches() / every;
  const auto begin = [&](std::int32_t block) {
    const TaskId first = expanded.tasks_of(OperatorId(0), block * every).forward;
    return timeline.start[first.index()];
  };
  const std::int32_t first = blocks - 1 - (blocks - 1) / part;
  return {begin(first), begin(blocks - 1), std::max(1, blocks - 1 - first)};
}

}  // namespace

Evaluation Evaluator::score_stream(const BoundStrategy& strategy, bool tell_memory) {
  SteadyWindow window, quarter;
  bool proven = false;
  for (const std::int32_t microbatches : stream_lengths(contents_, strategy)) {
    simulate(strategy, {.microbatches = microbatches});
    const auto steady = find_steady_stream(expanded_, timeline_);
    proven = steady.has_value();
    window = proven ? *steady : last_part(expanded_, timeline_, 2);
    quarter = proven ? *steady : last_part(expanded_, timeline_, 4);
    if (proven) break;
  }
  const auto iteration = [&](const SteadyWindow& w) {
    const std::int64_t all = contents_.options().microbatches,
                       each = std::int64_t{w.microbatches} * expanded_.block().microbatches;
    return (all * w.length() + each - 1) / each;
  };
  Evaluation result{iteration(window), Bytes(0), proven, std::abs(iteration(window) - iteration(quarter))};
  const bool fits = surely_fits();
  stream_memory_.clear();
  if (tell_memory || wanted_peaks_ || !fits) stream_memory_ = peak_memory(expanded_, timeline_);
  if (wanted_peaks_ || !fits) result.overflow = overflow(stream_memory_);
  return result;
}

Evaluation Evaluator::score(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks) {
  return *score_below(kNoLimit, strategy, peaks);
}

namespace {

// While it exists, peaks of memory are written there.
struct PeaksWanted {
  std::vector<DeviceMemory>*& by;
  PeaksWanted(std::vector<DeviceMemory>*& wanted, std::vector<DeviceMemory>& peaks) : by(wanted) {
    by = &peaks;
  }
  ~PeaksWanted() { by = nullptr; }
  PeaksWanted(const PeaksWanted&) = delete;
  PeaksWanted& operator=(const PeaksWanted&) = delete;
};

// While it exists, these labels are made, or none.
struct LabelsMade {
  Labels& by;
  LabelsMade(Labels& made, Labels labels) : by(made) { by = labels; }
  ~LabelsMade() { by = Labels::Leave; }
  LabelsMade(const LabelsMade&) = delete;
  LabelsMade& operator=(const LabelsMade&) = delete;
};

}  // namespace

std::optional<Evaluation> Evaluator::score_below(Nanoseconds limit, const BoundStrategy& strategy,
                                                 std::vector<DeviceMemory>& peaks) {
  const PeaksWanted wanted(wanted_peaks_, peaks);
  return score_if_below(limit, strategy);
}

std::optional<Evaluation> Evaluator::score_from_few(const BoundStrategy& strategy,
                                                    std::vector<DeviceMemory>& peaks, Nanoseconds& at_least) {
  const PeaksWanted wanted(wanted_peaks_, peaks);
  at_least = 0;
  if (contents_.versions().several()) return score_if_below(kNoLimit, strategy);
  const std::vector<std::int32_t> tried = fold_for_few(strategy);
  if (tried.empty()) return score_as_it_is(kNoLimit, folded(strategy), tried);
  for (const std::int32_t few : tried) {
    if (const auto result = score_few(folded(strategy), few)) return result;
    at_least = std::max(at_least, least_makespan(expanded_, timeline_).time);
  }
  const std::int32_t most_tried = expanded_.microbatches();
  if (const auto result = score_in_rhythm(folded(strategy))) return result;
  if (expanded_.microbatches() > most_tried)
    at_least = std::max(at_least, least_makespan(expanded_, timeline_).time);
  return std::nullopt;
}

Evaluation Evaluator::score_labelled(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks) {
  if (contents_.versions().several()) {
    const Evaluation evaluation = evaluate_labelled(strategy);
    peaks = stream_memory_;
    return evaluation;
  }
  const LabelsMade labelled(labels_, Labels::Make);
  return score(strategy, peaks);
}

Evaluation Evaluator::score(const BoundStrategy& strategy) { return *score_if_below(kNoLimit, strategy); }

std::optional<Evaluation> Evaluator::score_if_below(Nanoseconds limit, const BoundStrategy& strategy) {
  if (contents_.versions().several()) {
    begin(strategy);
    return score_stream(strategy);
  }
  const std::vector<std::int32_t> tried = fold_for_few(strategy);
  return score_as_it_is(limit, folded(strategy), tried);
}

// Returns numbers of microbatches that may prove the times of the others; folds devices for the first.
std::vector<std::int32_t> Evaluator::fold_for_few(const BoundStrategy& strategy) {
  begin(strategy);
  std::vector<std::int32_t> tried = few_microbatches(contents_, strategy);
  folding_ = fold(strategy, tried.empty() ? contents_.options().microbatches : tried.front());
  return tried;
}

std::optional<Evaluation> Evaluator::score_as_it_is(Nanoseconds limit, const BoundStrategy& strategy,
                                                    std::span<const std::int32_t> tried) {
  for (const std::int32_t few : tried) {
    if (const auto result = score_few(strategy, few)) return result;
    if (limit != kNoLimit && takes_longer(limit, strategy)) return std::nullopt;
  }
  if (const auto result = tried.empty() ? std::nullopt : score_in_rhythm(strategy)) return result;
  return simulate_all(strategy, {.labels = labels_, .folding = folding_});
}

// Returns whether the time is found to be `limit` or more, after few microbatches were simulated and proved
// nothing. Simulates more of them where they are likely to decide it.
bool Evaluator::takes_longer(Nanoseconds limit, const BoundStrategy& strategy) {
  const LeastMakespan least = least_makespan(expanded_, timeline_);
  if (least.time >= limit || least.time <= least.of_steps) return least.time >= limit;
  constexpr double kSpare = 1.1, kWorthwhile = 0.5;
  const double promising = kSpare * expanded_.microbatches() * static_cast<double>(limit - least.of_steps) /
                           static_cast<double>(least.time - least.of_steps);
  if (promising > kWorthwhile * contents_.options().microbatches) return false;
  const auto more = static_cast<std::int32_t>(promising) + 1;
  simulate(strategy, {.labels = labels_,
                      .microbatches = few_microbatches_from(more, contents_, strategy),
                      .folding = folding_});
  return least_makespan(expanded_, timeline_).time >= limit;
}

std::size_t tasks_of_passes(const BoundStrategy& strategy) {
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  return tasks;
}

std::size_t Evaluator::folded_tasks(const BoundStrategy& strategy) {
  const std::optional<Folding>& found = known_folding_.of(contents_, strategy);
  if (found) found_none_ = not_looked_for_ = 0;  // score() will look again
  return tasks_of_passes(found ? found->strategy() : strategy);
}

std::size_t Evaluator::folded_tasks_of_few(const BoundStrategy& strategy) {
  const std::vector<std::int32_t> tried = few_microbatches(contents_, strategy);
  const std::int32_t first = tried.empty() ? contents_.options().microbatches : tried.front();
  return folded_tasks(strategy) * static_cast<std::size_t>(first);
}

const Folding* Evaluator::fold(const BoundStrategy& strategy, std::int32_t microbatches) {
  if (tasks_of_passes(strategy) * static_cast<std::size_t>(microbatches) < fold_from_) return nullptr;
  if (not_looked_for_ < found_none_) return ++not_looked_for_, nullptr;
  const std::optional<Folding>& found = known_folding_.of(contents_, strategy);
  constexpr std::int32_t kMost = 15;
  found_none_ = found ? 0 : std::min(kMost, 2 * found_none_ + 1);
  not_looked_for_ = 0;
  return found ? &*found : nullptr;
}

std::optional<Evaluation> Evaluator::score_few(const BoundStrategy& strategy, std::int32_t few) {
  simulate(strategy, {.labels = labels_, .microbatches = few, .folding = folding_});
  return judge_few();
}

std::optional<Evaluation> Evaluator::score_in_rhythm(const BoundStrategy& strategy) {
  const std::int32_t more = few_microbatches_in_rhythm(expanded_, timeline_);
  return more > 0 ? score_few(strategy, more) : std::nullopt;
}

std::optional<Evaluation> Evaluator::judge_few() {
  const auto steady = find_steady_state(expanded_, timeline_);
  if (!steady) return std::nullopt;
  steady_ = steady;
  Evaluation result{steady->time_of(timeline_.makespan), Bytes(0)};
  if (wanted_peaks_ || !surely_fits()) {
    const TaskTimes times{timeline_, expanded_.microbatches(), expanded_.tasks_of_one_microbatch(),
                          expanded_.block()};
    result.overflow = overflow(peak_memory(expanded_, times, *steady));
  }
  return result;
}

std::optional<Evaluation> Evaluator::score_repriced(const CostModel& costs,
                                                    std::vector<DeviceMemory>& peaks) {
  const bool ended = steady_ || expanded_.microbatches() == contents_.options().microbatches;
  const bool kept = generation_ == contents_.generation();
  if (!ended || !kept || contents_.versions().several() || !contents_.reprice(costs)) return std::nullopt;
  const PeaksWanted wanted(wanted_peaks_, peaks);
  const bool alike = folding_ != nullptr && known_folding_.reprice(contents_);
  if (!alike) known_folding_.forget();
  if (alike || folding_ == nullptr) {
    if (!expanded_.retime()) expand(BoundStrategy(expanded_.strategy()), setting_);
    simulate();
    if (!steady_) return judge_all();
    steady_.reset();
    if (const auto result = judge_few()) return result;
  }
  // Other devices are alike now, or so many microbatches prove nothing.
  const LabelsMade labelled(labels_, setting_.labels);
  return score_if_below(kNoLimit, BoundStrategy(scored_));
}

Bytes Evaluator::overflow(const std::vector<DeviceMemory>& peaks) {
  std::vector<DeviceMemory> all = folding_ ? folding_->unfolded(peaks) : peaks;
  for (std::size_t d = 0; d < all.size(); ++d)
    all[d].communicators =
        peaks[d].communicators;  // alike devices may share groups with more or fewer others
  if (wanted_peaks_) *wanted_peaks_ = all;
  return memory_overflow(all, topology());
}

bool Evaluator::surely_fits() const {
  std::vector<Bytes> allocated = allocated_memory(expanded_);
  if (folding_) allocated = folding_->unfolded(allocated);
  const CommunicatorCount groups = communicators(expanded_);
  for (std::size_t d = 0; d < allocated.size(); ++d) {
    if (allocated[d] > topology().usable_memory(DeviceId(d), groups.of(DeviceId(d)))) return false;
  }
  return true;
}

}  // namespace pipesim

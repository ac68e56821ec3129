#include "search/evaluator.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "sim/base/errors.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/proofs/known_folding.h"
#include "taskgraph/proofs/least_makespan.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNoLimit = EvaluationRequest::kNoLimit;

// What was evaluated last. Where that is asked for again at other prices, its tasks need other times only.
struct LastEvaluation {
  bool whole = false;  // nothing stopped it, and it found a cost from one iteration
  Extent extent = Extent::Proving;
  Labels labels = Labels::Leave;
  BoundStrategy strategy;  // on all devices
  std::uint64_t generation = 0;
  ExpansionSetting setting;  // of the tasks that were made last
  bool repriced = false;     // since then
};

}  // namespace

// All that evaluators of one model use again, one after the other.
struct Evaluator::Workspace {
  explicit Workspace(std::size_t from) : fold_from(from) {}

  // Memory for the next simulation: that of the last, unless a SimulatedPart keeps it.
  Simulation& simulation_of(const std::shared_ptr<PlanContents>& contents) {
    if (simulation.use_count() > 1) {
      // PlanContents remembers the ways of the strategy that was asked for last, so a kept part gets its own.
      simulation->contents = std::make_shared<const PlanContents>(*simulation->contents);
      simulation->expanded.set_contents(*simulation->contents);
      std::erase_if(lent, [](const std::weak_ptr<Simulation>& s) { return s.expired(); });
      lent.emplace_back(simulation);
      simulation.reset();
      last.whole = false;
    }
    if (!simulation) {
      simulation = std::make_shared<Simulation>(contents);
    } else if (simulation->contents != contents) {
      simulation->contents = contents;
      simulation->expanded.set_contents(*contents);
      last.whole = false;
    }
    return *simulation;
  }

  [[nodiscard]] bool is_lent() const {
    return simulation.use_count() > 1 ||
           !std::ranges::all_of(lent, [](const std::weak_ptr<Simulation>& s) { return s.expired(); });
  }

  std::size_t fold_from;
  tbb::spin_mutex mutex;
  KnownFolding known_folding;
  SimulationScratch scratch;
  std::shared_ptr<Simulation> simulation;  // the last
  std::vector<std::weak_ptr<Simulation>> lent;
  LastEvaluation last;
  // A search whose plans have no alike devices does not look for them each time: after finding none, it skips
  // this number of scores.
  std::int32_t found_none = 0, not_looked_for = 0;
};

// Carries out one request.
class Evaluator::Run {
 public:
  Run(const std::shared_ptr<PlanContents>& contents, Workspace& workspace, const EvaluationRequest& request)
      : contents_(*contents),
        w_(workspace),
        s_(workspace.simulation_of(contents)),
        last_(workspace.last),
        request_(request),
        labels_(request.part.value_or(Labels::Leave)) {}

  Evaluated evaluate(const BoundStrategy& strategy) {
    const bool same_tasks = has_tasks_of(strategy);
    last_.whole = last_.repriced = false;
    if (same_tasks) result_.cost = retimed();
    if (!result_.cost) {
      begin(strategy);
      result_.cost = afresh(strategy);
    }
    last_.whole = result_.cost && !contents_.versions().several();
    if (request_.part) result_.part.emplace(w_.simulation);
    return std::move(result_);
  }

 private:
  void begin(const BoundStrategy& strategy) {
    last_.extent = request_.extent;
    last_.labels = labels_;
    last_.strategy = strategy;
    last_.generation = contents_.generation();
    s_.folding = nullptr;
    s_.steady.windows.clear();
    s_.steady.repeats = 0;
  }

  std::optional<Evaluation> afresh(const BoundStrategy& strategy) {
    if (request_.extent == Extent::None) {
      s_.expanded.expand_unordered(strategy);
      s_.timeline.start.clear();
      s_.timeline.end.clear();
      s_.timeline.makespan = 0;
      return std::nullopt;
    }
    if (contents_.versions().several()) {
      const Evaluation stream = score_stream(strategy);
      if (request_.part && request_.extent != Extent::Few) simulate(strategy, {.labels = labels_});
      return stream;
    }
    if (request_.extent == Extent::All) return simulate_all(strategy);
    const std::vector<std::int32_t> tried = few_microbatches(contents_, strategy);
    fold(strategy, tried.empty() ? contents_.options().microbatches : tried.front());
    const BoundStrategy& folded = s_.folding != nullptr ? s_.folding->strategy() : strategy;
    if (request_.extent == Extent::Few && !tried.empty()) return score_from_few(folded, tried);
    return score_as_it_is(folded, tried);
  }

  // Whether the tasks that there are differ from those asked for in their times alone.
  [[nodiscard]] bool has_tasks_of(const BoundStrategy& strategy) const {
    return last_.whole && last_.repriced && last_.extent == request_.extent && last_.labels == labels_ &&
           request_.below == kNoLimit && last_.generation == contents_.generation() &&
           last_.strategy == strategy;
  }

  // Gives these tasks their times. Nothing where so many microbatches prove nothing now.
  std::optional<Evaluation> retimed() {
    if (!s_.expanded.retime()) expand(BoundStrategy(s_.expanded.strategy()), last_.setting);
    simulate();
    return s_.steady.windows.empty() ? judge_all() : judge_few();
  }

  void expand(const BoundStrategy& strategy, const ExpansionSetting& setting) {
    last_.setting = setting;
    s_.expanded.expand(strategy, setting);
  }

  // Labels are made only when they are needed.
  void simulate() {
    try {
      pipesim::simulate(s_.expanded.dag(), w_.scratch, s_.timeline);
    } catch (const DependencyCycle&) {
      last_.setting.labels = Labels::Make;
      s_.expanded.expand(BoundStrategy(s_.expanded.strategy()), last_.setting);
      throw InputError(describe_deadlock(find_cycle(s_.expanded.dag()), s_.expanded.graph(),
                                         contents_.graph(), topology()));
    }
  }
  void simulate(const BoundStrategy& strategy, const ExpansionSetting& setting) {
    expand(strategy, setting);
    simulate();
  }

  Evaluation simulate_all(const BoundStrategy& strategy) {
    simulate(strategy, {.labels = labels_, .folding = s_.folding.get()});
    return judge_all();
  }

  // All microbatches were simulated.
  Evaluation judge_all() {
    Evaluation result{s_.timeline.makespan, Bytes(0)};
    if (request_.peaks || !surely_fits()) result.overflow = overflow(peak_memory(s_.expanded, s_.timeline));
    return result;
  }

  // Returns the window in which the microbatches of the last half, or of the last quarter, began their way.
  [[nodiscard]] SteadyWindow last_part(std::int32_t part) const {
    const std::int32_t every = s_.expanded.block().microbatches, blocks = s_.expanded.microbatches() / every;
    const auto begin = [&](std::int32_t block) {
      const TaskId first = s_.expanded.tasks_of(OperatorId(0), block * every).forward;
      return s_.timeline.start[first.index()];
    };
    const std::int32_t first = blocks - 1 - (blocks - 1) / part;
    return {begin(first), begin(blocks - 1), std::max(1, blocks - 1 - first)};
  }

  Evaluation score_stream(const BoundStrategy& strategy) {
    SteadyWindow window, quarter;
    bool proven = false;
    for (const std::int32_t microbatches : stream_lengths(contents_, strategy)) {
      simulate(strategy, {.microbatches = microbatches});
      const auto steady = find_steady_stream(s_.expanded, s_.timeline);
      proven = steady.has_value();
      window = proven ? *steady : last_part(2);
      quarter = proven ? *steady : last_part(4);
      if (proven) break;
    }
    const auto iteration = [&](const SteadyWindow& w) {
      const std::int64_t all = contents_.options().microbatches,
                         each = std::int64_t{w.microbatches} * s_.expanded.block().microbatches;
      return (all * w.length() + each - 1) / each;
    };
    Evaluation result{iteration(window), Bytes(0), proven, std::abs(iteration(window) - iteration(quarter))};
    if (request_.peaks || !surely_fits()) result.overflow = overflow(peak_memory(s_.expanded, s_.timeline));
    return result;
  }

  std::optional<Evaluation> score_from_few(const BoundStrategy& strategy,
                                           std::span<const std::int32_t> tried) {
    const auto learn = [&] {
      result_.at_least = std::max(result_.at_least, least_makespan(s_.expanded, s_.timeline).time);
    };
    for (const std::int32_t few : tried) {
      if (const auto result = score_few(strategy, few)) return result;
      learn();
    }
    const std::int32_t most_tried = s_.expanded.microbatches();
    if (const auto result = score_in_rhythm(strategy)) return result;
    if (s_.expanded.microbatches() > most_tried) learn();
    return std::nullopt;
  }

  std::optional<Evaluation> score_as_it_is(const BoundStrategy& strategy,
                                           std::span<const std::int32_t> tried) {
    for (const std::int32_t few : tried) {
      if (const auto result = score_few(strategy, few)) return result;
      if (request_.below != kNoLimit && takes_longer(strategy)) return std::nullopt;
    }
    if (const auto result = tried.empty() ? std::nullopt : score_in_rhythm(strategy)) return result;
    return simulate_all(strategy);
  }

  // Returns whether the time is found to be the limit or more, after few microbatches were simulated and
  // proved nothing. Simulates more of them where they are likely to decide it.
  bool takes_longer(const BoundStrategy& strategy) {
    const Nanoseconds limit = request_.below;
    const LeastMakespan least = least_makespan(s_.expanded, s_.timeline);
    if (least.time >= limit || least.time <= least.of_steps) return least.time >= limit;
    constexpr double kSpare = 1.1, kWorthwhile = 0.5;
    const double promising = kSpare * s_.expanded.microbatches() *
                             static_cast<double>(limit - least.of_steps) /
                             static_cast<double>(least.time - least.of_steps);
    if (promising > kWorthwhile * contents_.options().microbatches) return false;
    const auto more = static_cast<std::int32_t>(promising) + 1;
    simulate_few(strategy, few_microbatches_from(more, contents_, strategy));
    return least_makespan(s_.expanded, s_.timeline).time >= limit;
  }

  void fold(const BoundStrategy& strategy, std::int32_t microbatches) {
    if (tasks_of_passes(strategy) * static_cast<std::size_t>(microbatches) < w_.fold_from) return;
    if (w_.not_looked_for < w_.found_none) {
      ++w_.not_looked_for;
      return;
    }
    s_.folding = w_.known_folding.of(contents_, strategy);
    constexpr std::int32_t kMost = 15;
    w_.found_none = s_.folding ? 0 : std::min(kMost, 2 * w_.found_none + 1);
    w_.not_looked_for = 0;
  }

  void simulate_few(const BoundStrategy& strategy, std::int32_t few) {
    simulate(strategy, {.labels = labels_, .microbatches = few, .folding = s_.folding.get()});
  }

  std::optional<Evaluation> score_few(const BoundStrategy& strategy, std::int32_t few) {
    simulate_few(strategy, few);
    return judge_few();
  }

  // Simulates more microbatches where the rhythm of those so far promises that this proves something.
  std::optional<Evaluation> score_in_rhythm(const BoundStrategy& strategy) {
    const std::int32_t more = few_microbatches_in_rhythm(s_.expanded, s_.timeline);
    return more > 0 ? score_few(strategy, more) : std::nullopt;
  }

  std::optional<Evaluation> judge_few() {
    std::optional<SteadyState> steady = find_steady_state(s_.expanded, s_.timeline);
    if (!steady) return std::nullopt;
    s_.steady = std::move(*steady);
    Evaluation result{s_.steady.time_of(s_.timeline.makespan), Bytes(0)};
    if (request_.peaks || !surely_fits()) {
      const TaskTimes times{s_.timeline, s_.expanded.microbatches(), s_.expanded.tasks_of_one_microbatch(),
                            s_.expanded.block()};
      result.overflow = overflow(peak_memory(s_.expanded, times, s_.steady));
    }
    return result;
  }

  Bytes overflow(const std::vector<DeviceMemory>& peaks) {
    std::vector<DeviceMemory> all = s_.folding ? s_.folding->unfolded(peaks) : peaks;
    for (std::size_t d = 0; d < all.size(); ++d)
      all[d].communicators =
          peaks[d].communicators;  // alike devices may share groups with more or fewer others
    const Bytes over = memory_overflow(all, topology());
    if (request_.peaks) result_.peaks = std::move(all);
    return over;
  }

  [[nodiscard]] bool surely_fits() const {
    std::vector<Bytes> allocated = allocated_memory(s_.expanded);
    if (s_.folding) allocated = s_.folding->unfolded(allocated);
    const CommunicatorCount groups = communicators(s_.expanded);
    for (std::size_t d = 0; d < allocated.size(); ++d) {
      if (allocated[d] > topology().usable_memory(DeviceId(d), groups.of(DeviceId(d)))) return false;
    }
    return true;
  }

  [[nodiscard]] const Topology& topology() const { return contents_.costs().topology(); }

  const PlanContents& contents_;
  Workspace& w_;
  Simulation& s_;
  LastEvaluation& last_;
  const EvaluationRequest& request_;
  const Labels labels_;  // of what is simulated, but for streams
  Evaluated result_;
};

Evaluator::Evaluator(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                     std::size_t fold_from)
    : Evaluator(std::make_shared<PlanContents>(graph, costs, options),
                std::make_shared<Workspace>(fold_from)) {}

Evaluator::Evaluator(std::shared_ptr<PlanContents> contents, std::shared_ptr<Workspace> workspace)
    : contents_(std::move(contents)), workspace_(std::move(workspace)) {}

Evaluator Evaluator::with(std::optional<Pipeline> pipeline, Recompute recompute) const {
  return {std::make_shared<PlanContents>(contents_->with(std::move(pipeline), std::move(recompute))),
          workspace_};
}

Evaluator Evaluator::with(const CostModel& costs) && {
  Workspace& w = *workspace_;
  const bool alone = workspace_.use_count() == 1 && !w.is_lent();
  const std::size_t fold_from = w.fold_from;
  if (!alone || !w.last.whole || !contents_->reprice(costs))
    return {graph(), costs, contents_->options(), fold_from};
  const Folding* folding = w.simulation->folding.get();
  // Otherwise other devices are alike now.
  const bool as_before = w.known_folding.reprice(folding, *contents_) || folding == nullptr;
  w.last.repriced = as_before && w.simulation->contents == contents_;
  return std::move(*this);
}

Evaluated Evaluator::evaluate(const BoundStrategy& strategy, const EvaluationRequest& request) {
  return Run(contents_, *workspace_, request).evaluate(strategy);
}

std::size_t tasks_of_passes(const BoundStrategy& strategy) {
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  return tasks;
}

std::size_t Evaluator::tasks_to_simulate(const BoundStrategy& strategy, Extent extent) {
  if (extent == Extent::None) return tasks_of_passes(strategy);
  const auto all = static_cast<std::size_t>(contents_->options().microbatches);
  if (extent == Extent::All) return tasks_of_passes(strategy) * all;
  Workspace& w = *workspace_;
  const std::shared_ptr<const Folding> found = w.known_folding.of(*contents_, strategy);
  if (found) w.found_none = w.not_looked_for = 0;  // evaluate() will look again
  const std::vector<std::int32_t> tried =
      extent == Extent::Few ? few_microbatches(*contents_, strategy) : std::vector<std::int32_t>();
  return tasks_of_passes(found ? found->strategy() : strategy) *
         (tried.empty() ? all : static_cast<std::size_t>(tried.front()));
}

bool Evaluator::forget_plans(Bytes most) { return !workspace_->is_lent() && contents_->forget_plans(most); }

bool Evaluator::forget(Bytes most) { return !workspace_->is_lent() && contents_->forget(most); }

Bytes Evaluator::bytes() const {
  const Workspace& w = *workspace_;
  const std::size_t of_tasks = w.simulation ? w.simulation->expanded.dag().bytes() : 0;
  return contents_->bytes() + Bytes(static_cast<std::int64_t>(of_tasks + w.scratch.bytes()));
}

tbb::spin_mutex& Evaluator::mutex() { return workspace_->mutex; }

}  // namespace pipesim

#pragma once

#include <tbb/spin_mutex.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/simulated_part.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/expansion/folding.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/known_folding.h"

namespace pipesim {

/// The cost of one strategy.
struct Evaluation {
  Nanoseconds time = 0;  ///< of one iteration; see Evaluator of schedules that have no end
  Bytes overflow;        ///< bytes over Topology::usable_memory() at the peaks, summed; 0: it fits
  /// Only for a schedule that has no end: false when no period shows, so that the time is an estimate.
  /// `spread` is then how much the time would differ at the rate of the stream's last quarter. It does not
  /// bound the error.
  bool proven = true;
  Nanoseconds spread = 0;
  [[nodiscard]] bool feasible() const { return overflow.value == 0; }
  bool operator==(const Evaluation&) const = default;
};

/// Scores strategies: builds the task graph, simulates it, and computes memory over time only where the sum
/// of all that is ever allocated exceeds a device. Every algorithm and baseline is judged by it. Not
/// thread-safe, but chains on several threads may share its kept results, see mutex(). Obeys the thread's
/// deadline (sim/base/deadline.h). After OutOfTime it is as usable as before, except timeline(), expanded()
/// and task_graph().
///
/// Schedules that change weights while microbatches are under way never empty the pipeline. Their time is
/// that of an iteration's microbatches at the rate of the steady state; their memory is the peak while the
/// pipeline fills up and runs on. Where no period shows among a few times as many microbatches as are under
/// way, the rate is that of the second half of them.
class Evaluator {
 public:
  Evaluator(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);

  /// InputError that names the tasks, see describe_deadlock(), when tasks wait for each other.
  Evaluation evaluate(const BoundStrategy& strategy);
  Evaluation evaluate(const Strategy& strategy) { return evaluate(contents_.bind(strategy)); }
  /// Does the same as evaluate(), with labels in task_graph(), for reports.
  Evaluation evaluate_labelled(const BoundStrategy& strategy);

  /// For a schedule that has no end: the peak memory of each device while the schedule goes on, as
  /// evaluate_labelled() found it.
  [[nodiscard]] const std::vector<DeviceMemory>& stream_memory() const { return stream_memory_; }

  /// Returns the same as evaluate(), but leaves timeline(), expanded() and task_graph() unusable. It
  /// simulates only as many microbatches as it needs to prove the times of the others (steady_state.h).
  /// Forgets nothing.
  Evaluation score(const BoundStrategy& strategy);
  Evaluation score(const Strategy& strategy) { return score(contents_.bind(strategy)); }
  /// Does the same, and sets the peak memory of each device to what peak_memory() gives for all tasks.
  Evaluation score(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks);
  /// Returns the same, or nothing when the iteration is found to take `limit` or longer. That costs less than
  /// a full score where few microbatches do not prove the times of the others.
  std::optional<Evaluation> score_below(Nanoseconds limit, const BoundStrategy& strategy,
                                        std::vector<DeviceMemory>& peaks);
  /// Returns the same as score() where few microbatches prove the times of the others. Otherwise returns
  /// nothing, and the time is found to be no less than `at_least`.
  std::optional<Evaluation> score_from_few(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks,
                                           Nanoseconds& at_least);
  /// Does the same as score() with labels in task_graph(), for reports. part() is then what was simulated. A
  /// schedule that has no end is evaluated in full.
  Evaluation score_labelled(const BoundStrategy& strategy, std::vector<DeviceMemory>& peaks);
  /// Scores what was scored last, by any of the methods above, with other prices, in a fraction of the time.
  /// Operators stay bound, ways to move data chosen, devices alike and tasks expanded; only their times
  /// change. Returns nothing where the plan would have other tasks or hold other lanes, or where its schedule
  /// has no end; nothing may be done with this evaluator then. The former costs must still be there, see
  /// PlanContents::reprice().
  std::optional<Evaluation> score_repriced(const CostModel& costs, std::vector<DeviceMemory>& peaks);
  /// What was simulated last, by evaluate_labelled() or score_labelled().
  [[nodiscard]] SimulatedPart part() const {
    return {expanded_, timeline_, folding_, steady_.value_or(SteadyState())};
  }
  /// Forgets communication plans when they take too much memory, and then returns true. evaluate() begins
  /// with it.
  bool limit_memory();
  /// See PlanContents.
  bool forget_plans(Bytes most) { return contents_.forget_plans(most); }
  bool forget(Bytes most) { return contents_.forget(most); }
  /// Returns about how much memory all that it remembers and the task graph that it expanded last take.
  [[nodiscard]] Bytes bytes() const;
  /// Sets the pipeline and recompute of the plans that are scored from now on. Kept results stay.
  void set_pipeline(std::optional<Pipeline> pipeline, Recompute recompute);

  /// See ExpandedStrategy. Not valid after the next call of a method that scores.
  const ExpandedStrategy& expand_unordered(const BoundStrategy& strategy);

  /// Each IncrementalEvaluator holds it while it evaluates in full, so that several of them, on different
  /// threads, may share an evaluator. Forgetting is allowed only while none of them runs.
  [[nodiscard]] tbb::spin_mutex& mutex() { return mutex_; }

  /// score() lets one device stand for all devices like it (folding.h) when at least this many tasks of
  /// passes would be simulated. Initially 20,000: the search for such devices costs about as much as 10,000
  /// tasks.
  void fold_from(std::size_t tasks) { fold_from_ = tasks; }

  /// Returns how many tasks one microbatch's passes have on the devices that score() would simulate.
  std::size_t folded_tasks(const BoundStrategy& strategy);
  /// Returns the same for as many microbatches as score_from_few() simulates at first.
  std::size_t folded_tasks_of_few(const BoundStrategy& strategy);

  [[nodiscard]] const PlanContents& contents() const { return contents_; }
  [[nodiscard]] const OperatorGraph& graph() const { return contents_.graph(); }
  [[nodiscard]] const CostModel& costs() const { return contents_.costs(); }
  [[nodiscard]] const Topology& topology() const { return contents_.costs().topology(); }
  /// The timeline of the strategy that was evaluated last, with all its microbatches.
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const ExpandedStrategy& expanded() const { return expanded_; }
  [[nodiscard]] const TaskGraph& task_graph() const { return expanded_.graph(); }

 private:
  Evaluation score_stream(const BoundStrategy& strategy, bool tell_memory = false);
  Evaluation simulate_all(const BoundStrategy& strategy, const ExpansionSetting& setting);
  void begin(const BoundStrategy& strategy);
  void expand(const BoundStrategy& strategy, const ExpansionSetting& setting);
  void simulate();
  void simulate(const BoundStrategy& strategy, const ExpansionSetting& setting) {
    expand(strategy, setting);
    simulate();
  }
  Evaluation judge_all();
  std::optional<Evaluation> judge_few();
  const Folding* fold(const BoundStrategy& strategy, std::int32_t microbatches);
  std::optional<Evaluation> score_if_below(Nanoseconds limit, const BoundStrategy& strategy);
  std::vector<std::int32_t> fold_for_few(const BoundStrategy& strategy);
  [[nodiscard]] const BoundStrategy& folded(const BoundStrategy& strategy) const {
    return folding_ != nullptr ? folding_->strategy() : strategy;
  }
  std::optional<Evaluation> score_as_it_is(Nanoseconds limit, const BoundStrategy& strategy,
                                           std::span<const std::int32_t> tried);
  bool takes_longer(Nanoseconds limit, const BoundStrategy& strategy);
  std::optional<Evaluation> score_few(const BoundStrategy& strategy, std::int32_t few);
  /// Simulates more microbatches where the rhythm of those so far promises that this proves something.
  std::optional<Evaluation> score_in_rhythm(const BoundStrategy& strategy);
  Bytes overflow(const std::vector<DeviceMemory>& peaks);
  [[nodiscard]] bool surely_fits() const;

  PlanContents contents_;
  KnownFolding known_folding_;
  const Folding* folding_ = nullptr;   // of expanded_, where it is folded
  std::optional<SteadyState> steady_;  // of timeline_, where not all microbatches were simulated
  Labels labels_ = Labels::Leave;      // of what score() simulates
  ExpandedStrategy expanded_;
  SimulationScratch scratch_;
  std::size_t fold_from_ = 20'000;
  // A search whose plans have no alike devices does not look for them each time: after finding none, it skips
  // this number of scores.
  std::int32_t found_none_ = 0, not_looked_for_ = 0;
  Timeline timeline_;
  BoundStrategy scored_;          // the last, on all devices
  std::uint64_t generation_ = 0;  // of the contents then
  ExpansionSetting setting_;      // of expanded_
  std::vector<DeviceMemory> stream_memory_;
  std::vector<DeviceMemory>* wanted_peaks_ = nullptr;  // where score() writes them
  tbb::spin_mutex mutex_;
};

/// Returns how many tasks the passes of one microbatch have on all devices.
std::size_t tasks_of_passes(const BoundStrategy& strategy);

}  // namespace pipesim

#pragma once

#include <tbb/spin_mutex.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "search/simulated_part.h"
#include "taskgraph/memory/peak_memory.h"

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

/// How much of an iteration is simulated. Time and overflow are the same wherever they are found.
enum class Extent : std::uint8_t {
  /// It is as many microbatches as prove the times of the others (steady_state.h), or all of them; where
  /// there are many tasks, one device of those that are alike (folding.h).
  Proving,
  All,  ///< all microbatches on all devices
  /// The same as Proving where few microbatches prove the times of the others; otherwise it ends there, and
  /// has found `at_least`.
  Few,
  /// Nothing: the tasks of one microbatch are made, see ExpandedStrategy::expand_unordered().
  None
};

/// What Evaluator::evaluate() is to find. What is not asked for costs nothing.
struct EvaluationRequest {
  static constexpr Nanoseconds kNoLimit = std::numeric_limits<Nanoseconds>::max();

  Extent extent = Extent::Proving;
  /// With Extent::Proving: an iteration that takes as long, or longer, need not be known better. Finding that
  /// it does costs less than its time where few microbatches do not prove the times of the others.
  Nanoseconds below = kNoLimit;
  bool peaks = false;               ///< whether Evaluated::peaks is wanted
  std::optional<Labels> part = {};  ///< whether Evaluated::part is wanted, and whether its tasks have labels
};

/// What Evaluator::evaluate() found.
struct Evaluated {
  /// Nothing with Extent::None; with Extent::Few where few microbatches prove nothing; and where the
  /// iteration takes as long as EvaluationRequest::below, or longer.
  std::optional<Evaluation> cost;
  /// With Extent::Few: the iteration takes no less, as microbatches show that did not prove it; 0: none did.
  Nanoseconds at_least = 0;
  /// If asked for: the peak memory of each device, of schedules that have no end while they go on. Empty
  /// where there is no cost.
  std::vector<DeviceMemory> peaks;
  /// If asked for: what was simulated last. Of schedules that have no end that is one iteration by itself;
  /// with Extent::Few, the stream.
  std::optional<SimulatedPart> part;
};

/// Scores strategies: builds the task graph, simulates it, and computes memory over time only where the sum
/// of all that is ever allocated exceeds a device. Every algorithm and baseline is judged by it.
///
/// What evaluate() returns follows from the plan, the costs and the request alone. An evaluator remembers
/// results that depend on one operator or one pair of layouts (PlanContents), and uses memory again, but only
/// to be faster. It is for one thread at a time, but chains on several threads may share one, see mutex().
/// It obeys the thread's deadline (sim/base/deadline.h), and is as usable as before after OutOfTime.
///
/// Schedules that change weights while microbatches are under way never empty the pipeline. Their time is
/// that of an iteration's microbatches at the rate of the steady state; their memory is the peak while the
/// pipeline fills up and runs on. Where no period shows among a few times as many microbatches as are under
/// way, the rate is that of the second half of them.
class Evaluator {
 public:
  /// One device stands for all devices like it when at least this many tasks of passes would be simulated:
  /// the search for such devices costs about as much as 10,000 tasks.
  static constexpr std::size_t kFoldFrom = 20'000;

  /// The graph and the costs must outlive it.
  Evaluator(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
            std::size_t fold_from = kFoldFrom);
  /// An evaluator of plans with another pipeline and recompute. Both share what they remember and their
  /// memory, so that no more than one of them may be at work.
  [[nodiscard]] Evaluator with(std::optional<Pipeline> pipeline, Recompute recompute) const;
  /// An evaluator of the same plans at other prices, instead of this one. What is remembered is priced anew,
  /// if that is possible (PlanContents::reprice()) and no other evaluator or SimulatedPart shares it. The
  /// plan that was evaluated last is then evaluated again in a fraction of the time: only its tasks' times
  /// change. Strategies must be bound again.
  [[nodiscard]] Evaluator with(const CostModel& costs) &&;

  /// The strategy must be bound by contents(). InputError that names the tasks, see describe_deadlock(), when
  /// tasks wait for each other.
  Evaluated evaluate(const BoundStrategy& strategy, const EvaluationRequest& request);
  Evaluated evaluate(const Strategy& strategy, const EvaluationRequest& request) {
    return evaluate(contents().bind(strategy), request);
  }
  /// The cost alone.
  Evaluation evaluate(const BoundStrategy& strategy) { return *evaluate(strategy, {}).cost; }
  Evaluation evaluate(const Strategy& strategy) { return evaluate(contents().bind(strategy)); }

  /// Returns how many tasks the passes have that evaluate() would simulate at first.
  std::size_t tasks_to_simulate(const BoundStrategy& strategy, Extent extent);

  /// See PlanContents. Forgets nothing while a SimulatedPart is kept.
  bool forget_plans(Bytes most);
  bool forget(Bytes most);
  /// Returns about how much memory all that it remembers and the task graph that it made last take.
  [[nodiscard]] Bytes bytes() const;

  /// Each IncrementalEvaluator holds it while it evaluates in full, so that several of them, on different
  /// threads, may share an evaluator. Forgetting is allowed only while none of them runs.
  [[nodiscard]] tbb::spin_mutex& mutex();

  [[nodiscard]] const PlanContents& contents() const { return *contents_; }
  [[nodiscard]] const OperatorGraph& graph() const { return contents_->graph(); }
  [[nodiscard]] const CostModel& costs() const { return contents_->costs(); }
  [[nodiscard]] const Topology& topology() const { return contents_->costs().topology(); }

 private:
  struct Workspace;
  class Run;
  Evaluator(std::shared_ptr<PlanContents> contents, std::shared_ptr<Workspace> workspace);

  std::shared_ptr<PlanContents> contents_;
  std::shared_ptr<Workspace> workspace_;
};

/// Returns how many tasks the passes of one microbatch have on all devices.
std::size_t tasks_of_passes(const BoundStrategy& strategy);

}  // namespace pipesim

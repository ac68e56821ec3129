#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "search/peer_processes.h"
#include "search/planners/planner.h"
#include "search/what_if/noise.h"
#include "tools/analysis/inputs/subject.h"
#include "tools/analysis/whatif/study.h"
#include "tools/cli/base/arguments.h"
#include "tools/cli/planning/search_run.h"

namespace pipesim {

/// Noise under which plans are judged, too.
struct NoisyTimes {
  Noise noise;
  std::string objective_name;  ///< "p95"
  NoiseObjective objective;
  std::int64_t samples = 0;
  std::uint64_t seed = 1;
};

struct PointRequest {
  PointPlans plans = PointPlans::Same;
  std::optional<NoisyTimes> noise;
  /// From any thread: whether to end soon, with what there is.
  std::function<bool()> stop_requested = [] { return false; };
};

class KnownPlans;

/// Predicts points of a study. Each is what a command with the same arguments predicts: `simulate`, or
/// `search` with one thread. Several threads may ask at the same time.
class PointRunner {
 public:
  explicit PointRunner(PointRequest request);
  ~PointRunner();
  PointRunner(const PointRunner&) = delete;
  PointRunner& operator=(const PointRunner&) = delete;

  /// Reasons why there is no plan are in the result; UsageError where the options do not fit together.
  [[nodiscard]] PointResult run(const Arguments& point) const;
  /// The plan of a point. InputError where there is none.
  [[nodiscard]] Subject plan_of(const Arguments& point) const;
  [[nodiscard]] bool stop_requested() const { return request_.stop_requested(); }

 private:
  [[nodiscard]] PointResult run_same(const Arguments& point) const;
  [[nodiscard]] PointResult run_planned(const Arguments& point) const;
  [[nodiscard]] Subject planned(const Arguments& point) const;
  void choose_by_noise(const SearchRun& run, const CostModel& costs, PlannerAnswer& answer) const;
  [[nodiscard]] Nanoseconds noisy_time(Evaluator& evaluator, const Strategy& strategy) const;

  PointRequest request_;
  std::unique_ptr<KnownPlans> known_;
};

/// Runs the missing points of a study on so many threads, beginning with the first. Searches along the last
/// axis begin with the recipe of the point before, eight points at a time. `done` is called after each point,
/// by one thread at a time. A request to stop leaves out points that have not ended. `peers` are processes
/// that share the points in rounds. After each round, every process has all points that were found, and
/// `done` is called for those of other processes, too. nullptr: there are none.
void run_points(const PointRunner& runner, const Arguments& arguments, Study& study, int threads,
                PeerProcesses* peers, const std::function<void()>& done);

/// Finds where the kind of the fastest plan changes between neighbours along axes of numbers, by bisection
/// until the ends are within 2 % of each other, or next to each other where they are whole numbers.
void find_crossovers(const PointRunner& runner, const Arguments& arguments, Study& study,
                     const std::function<void()>& step);

}  // namespace pipesim

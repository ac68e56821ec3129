#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "python/module/background_call.h"
#include "search/auto/algorithms.h"
#include "tools/analysis/inputs/open_plan.h"

namespace pipesim {

/// What an algorithm is asked for.
struct PlanQuestion {
  std::string algorithm;
  double seconds = 0;  ///< 0: no limit
  std::optional<std::int64_t> proposals;
  std::optional<std::uint64_t> seed;
  std::optional<std::int32_t> threads;  ///< nothing: those of this process's cores
};

/// What it answered.
struct FoundPlan {
  std::shared_ptr<OpenPlan> plan;
  std::string found_by, note;
  std::optional<bool> proven;
  std::optional<Nanoseconds> lower_bound;
  double seconds = 0;  ///< that it took
};

/// UsageError where the options say what recipes choose themselves: recomputation, sharding, gathered inputs.
void refuse_parts_of_recipes(const PlanOptions& options);

/// A search for a plan of a problem.
class PlanCall final : public BackgroundCall {
 public:
  /// UsageError where the algorithm is none, or does not take what it is asked. Calibration: null for none.
  PlanCall(std::shared_ptr<const Problem> problem, std::shared_ptr<const Calibration> calibration,
           const PlanQuestion& question);
  /// The answer; the call must have ended.
  [[nodiscard]] const FoundPlan& found() const { return *found_; }

 private:
  class Watch;
  void work() override;
  [[nodiscard]] FoundPlan told_of(const PlannerAnswer& answer, const CostModel& costs) const;

  std::shared_ptr<const Problem> problem_;
  std::shared_ptr<const Calibration> calibration_;
  const Algorithm& algorithm_;
  PlannerSettings settings_;
  std::optional<FoundPlan> found_;
};

}  // namespace pipesim

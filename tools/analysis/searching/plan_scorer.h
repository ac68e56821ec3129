#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "costmodel/calibration.h"
#include "search/evaluator.h"
#include "tools/analysis/inputs/open_plan.h"

namespace pipesim {

/// Scores plans on a topology one after the other. Where few operators have other configs than in the plan
/// before, or in the one before that, the effort grows with these operators alone (IncrementalEvaluator). The
/// result is Evaluator's and depends on the plan alone, not on what was scored before. It is for one thread
/// at a time. It obeys the thread's deadline (sim/base/deadline.h), and is as usable as before after
/// OutOfTime.
class PlanScorer {
 public:
  /// The topology and the calibration, which may be null, must outlive it.
  PlanScorer(const Topology& topology, const Calibration* calibration);
  ~PlanScorer();

  static constexpr Nanoseconds kNoLimit = EvaluationRequest::kNoLimit;

  /// Nothing where an iteration takes `below` or longer, which may take less effort to find out than its
  /// time. The plan must be for this topology.
  std::optional<Evaluation> score(const std::shared_ptr<const OpenPlan>& plan, Nanoseconds below = kNoLimit);
  /// The peak memory of each device, for which the plan is simulated in full.
  std::vector<DeviceMemory> peaks(const std::shared_ptr<const OpenPlan>& plan);

 private:
  class Sequence;
  Sequence& sequence_of(const std::shared_ptr<const OpenPlan>& plan);

  const Topology& topology_;
  const Calibration* calibration_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // the one that was used last comes first
};

}  // namespace pipesim

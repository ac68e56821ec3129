#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/search.h"
#include "search/single_changes.h"
#include "tools/analysis/plans/plan_difference.h"
#include "tools/analysis/plans/plan_reason.h"

namespace pipesim {

/// Why a search ended with its plan: its difference from the best baseline, and the effect of one more
/// change. Refers to the candidates and the baselines.
struct WhyPlan {
  const CandidateSet& candidates;
  Scored<Strategy> found;
  const Baseline* baseline = nullptr;        ///< the fastest, or else the nearest to fitting; may be null
  std::optional<PlanDifference> difference;  ///< nothing where the plan is the baseline
  std::optional<PlanReason> reason;  ///< what the difference says in words; nothing without a baseline
  SingleChanges more;
  std::string left_out;  ///< "", or why the tasks of both plans, or changes, were not looked at
};

/// Limits on trying changes: time and number, whichever is reached first; 0 means no limit.
struct TryBudget {
  double seconds = 0;
  std::int64_t tries = 0;
};

/// A tenth of the search's time, at least 0.2 s. For a search with a budget in proposals alone: a tenth of
/// its proposals, at least 200 but no more than its budget, so that the same seed gives the same tries.
TryBudget try_budget(const SearchBudget& budget, const SearchRecord& record);

/// Afterwards the evaluator's task graph is another plan's. When the
/// thread's deadline (sim/base/deadline.h) passes, the result contains what was found until then.
WhyPlan why_plan(Evaluator& evaluator, const CandidateSet& candidates, const std::vector<Baseline>& baselines,
                 const Scored<Strategy>& found, const TryBudget& budget);

}  // namespace pipesim

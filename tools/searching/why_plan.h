#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "search/search.h"
#include "search/single_changes.h"
#include "tools/reports/plan_difference.h"
#include "tools/reports/plan_reason.h"

namespace pipesim {

/// Why a search ended with its plan: what tells it from the best baseline, and what one more change would
/// bring. Refers to the candidates, the baselines and the outcome.
struct WhyPlan {
  const CandidateSet& candidates;
  const ScoredStrategy& plan;
  const Baseline* baseline = nullptr;        ///< the fastest, or else the nearest to fitting; may be null
  std::optional<PlanDifference> difference;  ///< nothing where the plan is the baseline
  std::optional<PlanReason> reason;  ///< what the difference says in words; nothing without a baseline
  SingleChanges more;
  std::string left_out;  ///< "", or why the tasks of both plans, or changes, were not looked at
};

/// How long changes are tried: until either is used up, 0 being no limit.
struct TryBudget {
  double seconds = 0;
  std::int64_t tries = 0;
};

/// A tenth of what the search took, at least 0.2 s; of a search with a budget in proposals alone a tenth of
/// its proposals, at least 200 but no more than its budget, so that the same seed gives the same tries.
TryBudget try_budget(const SearchBudget& budget, const SearchOutcome& outcome);

/// The outcome must have a best plan. The evaluator's task graph is another one's afterwards. Where the
/// thread's deadline (sim/base/deadline.h) passes, what was found until then is told.
WhyPlan why_plan(Evaluator& evaluator, const CandidateSet& candidates, const std::vector<Baseline>& baselines,
                 const SearchOutcome& outcome, const TryBudget& budget);

std::string to_text(const WhyPlan& why);
/// A JSON object with "reason" and "against_baseline" (null without one) and "one_more_change".
nlohmann::ordered_json json_of(const WhyPlan& why);

}  // namespace pipesim

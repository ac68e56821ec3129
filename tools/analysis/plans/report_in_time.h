#pragma once

#include <optional>

#include "tools/analysis/plans/plan_report.h"

namespace pipesim {

/// Like report_plan(), if the thread's deadline (sim/base/deadline.h) leaves time for it. Otherwise it
/// reports the time of an iteration alone, from `scored`, the strategy's evaluation; when that is missing,
/// OutOfTime.
PlanReport report_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                          const std::optional<Evaluation>& scored, const FlopsCounting& counting = {});
/// Whether the strategy has few enough tasks for report_plan_in_full().
bool may_report_in_full(Evaluator& evaluator, const BoundStrategy& strategy);

}  // namespace pipesim

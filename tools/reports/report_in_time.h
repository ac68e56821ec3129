#pragma once

#include <optional>

#include "tools/reports/plan_report.h"

namespace pipesim {

/// Like report_plan() if the thread's deadline (sim/base/deadline.h) leaves time for it and the tasks fit
/// into memory (up to some ten millions). Otherwise it simulates few microbatches and one of each group of
/// alike devices, and reports the time of an iteration, memory, and what devices compute, all exact. Without
/// time for that it reports the time of an iteration alone, from `scored`. `scored`: the strategy's
/// evaluation; when it is needed and missing, OutOfTime.
PlanReport report_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                          const std::optional<Evaluation>& scored);
/// Whether the strategy has few enough tasks for a full report.
bool may_report_in_full(Evaluator& evaluator, const BoundStrategy& strategy);

}  // namespace pipesim

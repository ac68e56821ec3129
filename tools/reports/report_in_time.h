#pragma once

#include <optional>

#include "tools/reports/plan_report.h"

namespace pipesim {

/// report_plan() where the thread's deadline (sim/base/deadline.h) leaves time for it and the tasks are not
/// too many to be held, some ten millions. Else what simulating few microbatches, and one of the devices that
/// are alike, tells: the time of an iteration, memory, and what devices compute, all exact. Where there is no
/// time for that either, the time of an iteration alone. `scored`: of the strategy; without it OutOfTime.
PlanReport report_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                          const std::optional<Evaluation>& scored);
/// Its tasks are not too many.
bool may_report_in_full(Evaluator& evaluator, const BoundStrategy& strategy);

}  // namespace pipesim

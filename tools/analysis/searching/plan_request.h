#pragma once

#include <optional>

#include "search/planners/planner.h"
#include "search/problem.h"
#include "taskgraph/plan/plan_json.h"

namespace pipesim {

/// What an algorithm is asked for plans of the problem. `problem` and `costs` must outlive it.
PlanRequest request_of(const Problem& problem, const PlannerSettings& settings, const CostModel& costs);

/// Returns the best recipe of a ranking where the plan was made from it; else nullptr. `answer` must outlive
/// the result.
const Recipe* recipe_of_plan(const Problem& problem, const PlannerAnswer& answer);

/// Returns the plan as a file has it, run by `runtime`. The text of its model says what the planner chose of
/// it. InputError where the plan is not legal.
Plan plan_of(const Problem& problem, const PlannerAnswer& answer, Runtime runtime);

/// Whether the lower bound holds for the plan. Measured durations may be shorter than it assumes, and it does
/// not look at iterations that overlap.
bool has_bound(const CostModel& costs, const PlanOptions& options);

}  // namespace pipesim

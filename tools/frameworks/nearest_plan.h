#pragma once

#include <optional>

#include "search/evaluator.h"
#include "tools/frameworks/framework_plan.h"

namespace pipesim {

/// A plan that a framework can express, near to one that it can't.
struct NearestPlan {
  FrameworkPlan plan;
  Evaluation evaluation;
};

/// The nearest plan that the framework can express, see nearest_expressible(). Where that needs more memory
/// than there is, the first that fits of those that also recompute, divide more state, have smaller
/// microbatches or more stages, the fewest of these changes first; or the nearest, if none fits. Nothing
/// where there is no such plan. `options`: of the plan, for what recipes do not say.
std::optional<NearestPlan> nearest_plan(const Framework& framework, const ReadPlan& read,
                                        const RecipeModel& model, const Topology& topology,
                                        const PlanOptions& options);

}  // namespace pipesim

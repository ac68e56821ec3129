#pragma once

#include "search/planners/planner.h"

namespace pipesim {

/// Ranks all recipes, where the model has any (has_recipes()). Runs baselines and all other planners for the
/// model with the request's number of microbatches, and with more and fewer microbatches of the same samples.
/// Then continues from their plans with searches over splits (search/mcmc) and over everything
/// (search/joint). The plan is no worse than any of theirs. Where model and topology are large, only recipes
/// and the joint search from the best of them are asked.
///
/// With a budget in proposals alone, the plan depends on the seed and the chains, never on the threads. With
/// the thread's deadline (sim/base/deadline.h) each part gets a share of the time. The request needs an
/// observer and with_shape. InputError when no algorithm found a plan.
PlannerAnswer search_auto(const PlanRequest& request);

}  // namespace pipesim

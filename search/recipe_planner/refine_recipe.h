#pragma once

#include <functional>

#include "search/recipe_planner/ranking_request.h"
#include "search/recipe_planner/recipe_ranking.h"

namespace pipesim {

/// Goes on from the best recipes of a ranking to recipes that its set leaves out: those that compute only
/// some layers of each stage again, as few as fit, with fewer or more samples in a microbatch, and half the
/// tp or pp in exchange for copies; those whose keys pass round the parts of cp, or whose attention exchanges
/// heads there; and those that give a layer of the busiest group of the pipeline to another. Each step is
/// simulated and kept where it is faster and fits; it ends when none is, when the thread's deadline passes,
/// or when `go_on` is false. Every recipe passes the request's conditions and rules.
///
/// Where one is faster than all of the set, it comes first among those that were rated.
void refine_ranking(const RankingRequest& request, RecipeRanking& ranking,
                    const std::function<bool(const RankingProgress&)>& go_on);

/// Calls rank_recipes() and then, where the rules are a framework's, refine_ranking(), for which a part of
/// the time is kept.
RecipeRanking rank_and_refine(const RankingRequest& request,
                              const std::function<bool(const RankingProgress&)>& go_on);

}  // namespace pipesim

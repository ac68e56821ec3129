#pragma once

#include <functional>

#include "search/recipe_planner/ranking_request.h"
#include "search/recipe_planner/recipe_ranking.h"
#include "search/search.h"

namespace pipesim {

/// Bounds all recipes, and simulates those that might be the fastest that fits, the least bound first, until
/// no bound is below the best. `go_on` is asked now and then; false ends it. It also ends when the thread's
/// deadline passes (sim/base/deadline.h); where that is before recipes are counted, there are 0, and 1 is
/// left.
RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on);

/// Returns a callback that reports progress as that of a search, whose proposals are the recipes that were
/// simulated. Seconds count from this call.
std::function<bool(const RankingProgress&)> told_as_search(ProgressCallback tell);

}  // namespace pipesim

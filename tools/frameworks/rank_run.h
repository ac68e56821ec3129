#pragma once

#include <functional>
#include <string>

#include "search/recipe_planner/rank_recipes.h"
#include "topologies/topology.h"

namespace pipesim {

/// A training run whose recipe is open.
struct OpenRun {
  std::string model;  ///< text of open_model(); its batch is of no matter
  const Topology& topology;
  Runtime runtime;
  PlanOptions options;       ///< optimizer, types and imbalance; the rest is a recipe's
  std::int64_t samples = 0;  ///< of an iteration
  RecipeFilter filter;       ///< its rules also say how tokens go to experts
  int threads = 1;
};

/// The run with this complete recipe. InputError where a rule that looks at operators refuses it.
RatedRecipe rate_recipe(const OpenRun& run, Recipe recipe);

/// Ranks its recipes until the thread's deadline (sim/base/deadline.h), or until `go_on` is false.
RecipeRanking rank_run(const OpenRun& run, const std::function<bool(const RankingProgress&)>& go_on);

}  // namespace pipesim

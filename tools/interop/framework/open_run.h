#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/recipe_planner/rank_recipes.h"
#include "tools/interop/framework/framework.h"
#include "topologies/topology.h"

namespace pipesim {

/// A training run whose recipe is open.
struct OpenRun {
  std::string model;  ///< text of open_model(); its batch is of no matter
  const Topology& topology;
  Runtime runtime;
  PlanOptions options;       ///< optimizer, types and imbalance; the rest is a recipe's
  std::int64_t samples = 0;  ///< of an iteration
  RecipeFilter filter = {};  ///< its rules also say how tokens go to experts
  int threads = 1;
  bool runtime_is_asked = false;  ///< it overlaps as it says, whatever recipes say
  bool refines = true;            ///< rank_run() goes on to recipes beside the set, see refine_ranking()
};

/// Returns the plan, still without a recipe, that the framework is asked about. InputError when this version
/// runs no such model, whatever the recipe, or the hosts can't be launched.
FrameworkPlan framework_question(const Framework& framework, const FrameworkVersion& version,
                                 const std::string& model, std::int64_t samples, const PlanOptions& options,
                                 const Topology& topology);

/// Whether each device hands out its own tokens to experts, as frameworks do: where there is one, or where
/// the runtime is a framework's and the model does not say how many groups of tokens there are.
bool dispatches_locally(const Framework* framework, const std::string& model, const Runtime& runtime);

/// Returns the filter of recipes under these conditions that the framework of the question runs; without a
/// framework, all recipes. Overlap is switched on as the framework's users do it; without a framework,
/// wherever the runtime is a framework's.
RecipeFilter recipe_filter_of(const Framework* framework, const std::optional<FrameworkPlan>& question,
                              const std::string& model, std::vector<RecipeCondition> conditions,
                              const Runtime& runtime);

/// The run as the framework does it: what its kernels keep, its runtime unless one is asked for, and of the
/// recipes under these conditions those that this version runs. InputError as framework_question().
OpenRun run_of_framework(const Framework& framework, const FrameworkVersion& version, OpenRun run,
                         std::vector<RecipeCondition> conditions);

/// The run with this complete recipe. InputError where a rule that looks at operators refuses it.
RatedRecipe rate_recipe(const OpenRun& run, Recipe recipe);

/// Ranks its recipes until the thread's deadline (sim/base/deadline.h), or until `go_on` is false.
RecipeRanking rank_run(const OpenRun& run, const std::function<bool(const RankingProgress&)>& go_on);

}  // namespace pipesim

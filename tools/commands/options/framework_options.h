#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipe_planner/space/recipe_filter.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/cli/arguments.h"
#include "tools/frameworks/framework.h"
#include "tools/inputs/model_run.h"

namespace pipesim {

/// --for FRAMEWORK, which search, simulate, compare and whatif share.
Option for_option();

/// The framework of --for; nullptr without it, for pipesim itself, and of commands that have no such option.
/// UsageError when it is not known.
const Framework* framework_of(const Arguments& arguments);

/// What the framework is asked of a model, without a recipe. InputError when it runs no such model, whatever
/// the recipe, or the hosts can't be launched.
FrameworkPlan framework_question(const Framework& framework, const std::string& model, std::int64_t samples,
                                 const PlanOptions& options, const Topology& topology);

/// InputError when the framework of --for, if there is one, does not run the recipe: why, and the nearest
/// that it runs. `run` is what the recipe gives the model.
void require_recipe_of(const Arguments& arguments, const ModelRun& run, const Recipe& recipe,
                       const PlanOptions& options, const Topology& topology);

/// The recipe that a plan is. InputError when the framework does not run the plan: why.
Recipe required_recipe(const Framework& framework, const Plan& plan, const RecipeModel& model,
                       const Topology& topology);

/// --only and --not, which choose among recipes.
std::vector<Option> recipe_condition_options(const std::string& of);
std::vector<RecipeCondition> recipe_conditions_of(const Arguments& arguments);

/// Recipes under these conditions that the framework of the question runs; without one, all. Overlap is
/// switched on as the framework's users do it; without one, wherever the runtime is a framework's.
RecipeFilter recipe_filter_of(const Framework* framework, const std::optional<FrameworkPlan>& question,
                              std::vector<RecipeCondition> conditions, const Runtime& runtime);

/// The runtime of all recipes of the filter: its policies are as their overlap says. That of one of them is
/// with_policies().
Runtime with_overlap_of(Runtime runtime, const RecipeFilter& filter);

}  // namespace pipesim

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipe_planner/space/recipe_filter.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/analysis/inputs/model_run.h"
#include "tools/cli/base/arguments.h"
#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What an option says of a framework: "NAME" or "NAME:VERSION".
struct FrameworkName {
  std::string name;
  const Framework* framework = nullptr;  ///< nullptr: one of the other names
  FrameworkVersion version = {};         ///< its newest where none is named
  bool version_is_named = false;
};
/// UsageError when neither a framework nor one of `others` has the name, or the framework no such version.
FrameworkName framework_name_of(const Arguments& arguments, const std::string& option,
                                const std::vector<std::string>& others);

/// --for FRAMEWORK[:VERSION], which search, simulate, compare and whatif share.
Option for_option();

/// The framework of --for; nullptr without it, for pipesim itself, and of commands that have no such option.
/// UsageError when it is not known.
const Framework* framework_of(const Arguments& arguments);
/// The version of that framework.
FrameworkVersion framework_version_of(const Arguments& arguments);

/// Throws an InputError when the framework of --for, if there is one, does not run the recipe. It says why,
/// and which is the nearest recipe that it runs. `run` is what the recipe gives the model.
void require_recipe_of(const Arguments& arguments, const ModelRun& run, const Recipe& recipe,
                       const PlanOptions& options, const Topology& topology);

/// The recipe that a plan is. InputError when the framework does not run the plan: why.
Recipe required_recipe(const Framework& framework, const FrameworkVersion& version, const Plan& plan,
                       const RecipeModel& model, const Topology& topology);

/// --only and --not, which choose among recipes.
std::vector<Option> recipe_condition_options(const std::string& of);
std::vector<RecipeCondition> recipe_conditions_of(const Arguments& arguments);

}  // namespace pipesim

#pragma once

#include <string>
#include <vector>

#include "search/pipelines/listed_stages.h"
#include "search/planners/gpipe.h"
#include "taskgraph/plan/plan.h"
#include "tools/cli/base/arguments.h"
#include "tools/cli/options/model_options.h"

namespace pipesim {

// Options that say what holds for a plan: policies, stages and their schedule, recipes.

std::vector<Option> plan_options();
/// --optimizer, --gradient-type and --gradient-piece.
std::vector<Option> weight_options();
/// An option for each of PlanPolicies, by default as there: --recompute, --state-sharding and others.
std::vector<Option> policy_options();
/// --imbalance, by default even.
Option imbalance_option();
/// --schedule, `help` says of what.
Option schedule_option(const std::string& help);
/// --recipe, `help` says for what.
Option recipe_option(const std::string& help);
/// --recipe, which must be given. UsageError when it can't be read, or when an option is given that a recipe
/// sets.
Recipe recipe_of(const Arguments& arguments);
/// The same of one of several.
Recipe recipe_of(const Arguments& arguments, const std::string& text);
/// --recompute.
Recompute recompute_of(const Arguments& arguments);
/// --schedule. UsageError when no plan can have it.
const std::string& schedule_of(const Arguments& arguments);
/// Whether --stages lists stages, and the list. UsageError when it can't be read.
bool lists_stages(const Arguments& arguments);
std::vector<ListedStage> stage_list_of(const Arguments& arguments);
/// --stages, --chunks and --schedule; --stages must be there, and a number.
PipelineDemand pipeline_demand_of(const Arguments& arguments);
/// --schedule if it was given, else all schedules that plans can have and that take no number.
std::vector<std::string> schedules_to_try(const Arguments& arguments);
PlanOptions plan_options_of(const Arguments& arguments, const ModelRun& run);
inline PlanOptions plan_options_of(const Arguments& arguments) {
  return plan_options_of(arguments, model_run_of(arguments));
}

}  // namespace pipesim

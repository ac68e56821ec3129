#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/auto/auto.h"
#include "search/planners/planner.h"
#include "tools/cli/arguments.h"

namespace pipesim {

/// A planner that `--algorithm` can name, and its options.
struct PlannerChoice {
  std::string_view name, summary;
  std::vector<std::string> options;      ///< of planner_options() and of searches
  std::vector<std::string> cost_models;  ///< that --cost-model may say, the default first; empty: none
  bool searches = false;  ///< takes --seconds, --proposals, --seed, --threads, --chains and checkpoints
  bool makes_stages = true;
};

/// gpipe, pipedream, dapple, alpa, recipes, intra, auto.
const std::vector<PlannerChoice>& planner_choices();
/// The planner of a search: the one that --algorithm names. For "exhaustive" with options that ask for stages
/// or microbatches, it is a planner that tries all pipelines and is not in planner_choices(). nullptr: none.
const PlannerChoice* planner_of(const Arguments& arguments);

/// "mesh" and what it says, of splits that follow a mesh of all devices. UsageError when it is wrong.
Option mesh_option(std::string help);
MeshAxes mesh_of(const Arguments& arguments);

/// The conditions of --only and --not, and those that other options mean for auto.
std::vector<RecipeCondition> planner_conditions_of(const Arguments& arguments);

/// Options of pipeline planners, besides the model, the topology and the plan's options.
std::vector<Option> planner_options();
/// UsageError where an option does not go with the algorithm, planner or not.
void check_planner_options(const Arguments& arguments);

/// The settings that planner_options() give to the planner that --algorithm names. UsageError when they are
/// wrong; InputError when the file of --stage-costs is.
PlannerSettings planner_settings_of(const Arguments& arguments);
AutoOptions auto_options_of(const Arguments& arguments);

}  // namespace pipesim

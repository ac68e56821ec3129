#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/auto/algorithms.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// The algorithm that --algorithm names.
const Algorithm& algorithm_of(const Arguments& arguments);
/// Whether splits of operators are asked for and no stages. "exhaustive" searches them unless options ask for
/// stages or microbatches.
bool asks_for_splits(const Arguments& arguments);

/// "mesh" and what it says, of splits that follow a mesh of all devices. UsageError when it is wrong.
Option mesh_option(std::string help);
MeshAxes mesh_of(const Arguments& arguments);

/// The conditions of --only and --not, and those that other options mean for auto.
std::vector<RecipeCondition> planner_conditions_of(const Arguments& arguments);

/// Options of pipeline planners, besides the model, the topology and the plan's options.
std::vector<Option> planner_options();
/// UsageError where an option does not go with the algorithm.
void check_planner_options(const Arguments& arguments);

/// The settings that options give to the algorithm that --algorithm names. UsageError when they are wrong;
/// InputError when the file of --stage-costs is.
PlannerSettings planner_settings_of(const Arguments& arguments);

}  // namespace pipesim

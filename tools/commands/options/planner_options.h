#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/auto/auto.h"
#include "search/planners/planner.h"
#include "tools/cli/arguments.h"

namespace pipesim {

/// A planner that `--algorithm` can name, and what it takes.
struct PlannerChoice {
  std::string_view name, summary;
  std::vector<std::string> options;      ///< of planner_options() and of searches
  std::vector<std::string> cost_models;  ///< that --cost-model may say, the default first; empty: none
  bool searches = false;  ///< takes --seconds, --proposals, --seed, --threads, --chains and checkpoints
};

/// gpipe, pipedream, dapple, alpa, auto.
const std::vector<PlannerChoice>& planner_choices();
/// Who plans for a search: the planner that --algorithm names, or for "exhaustive", where options ask for
/// stages or microbatches, one that tries all pipelines and is not among planner_choices(). nullptr: none.
const PlannerChoice* planner_of(const Arguments& arguments);

/// What planners of pipelines take beside the model, the topology and the plan's options.
std::vector<Option> planner_options();
/// UsageError where an option does not go with the algorithm, planner or not.
void check_planner_options(const Arguments& arguments);

/// What planner_options() say to the planner that --algorithm names. UsageError where they are wrong,
/// InputError where the file of --stage-costs is.
PlannerSettings planner_settings_of(const Arguments& arguments);
AutoOptions auto_options_of(const Arguments& arguments);

}  // namespace pipesim

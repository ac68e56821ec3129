#pragma once

#include <string>

#include "search/auto/algorithms.h"
#include "tools/cli/arguments.h"
#include "tools/commands/options/planner_options.h"
#include "tools/frameworks/framework.h"
#include "tools/inputs/problem.h"
#include "tools/searching/search_time.h"

namespace pipesim {

/// What a command line asks a planner for.
struct PlannerRun : Problem {
  const Algorithm& planner;
  PlannerSettings settings = {};
  double seconds = 0;                 ///< 0: no limit
  std::string output = {}, log = {};  ///< files; "": none
  bool json = false;
  const Framework* framework = nullptr;  ///< of --for
  bool by_recipes = false;               ///< recipes are ranked
  bool runtime_is_asked = false;         ///< by --runtime
  Runtime base_runtime = {};             ///< the runtime before recipes say what overlaps
  std::string stands_in_because = {};    ///< a sentence where recipes stand in for another planner
  [[nodiscard]] std::string algorithm() const { return std::string(planner.name); }
};

/// The planner that --algorithm names, with its model, topology and settings. UsageError where options do not
/// fit together; InputError where a file, the model or the topology is at fault.
PlannerRun planner_run_of(const Arguments& arguments);

/// Returns the best recipe of a ranking where the plan was made from it; else nullptr. `planned` must outlive
/// the result.
const Recipe* recipe_of_plan(const PlannerRun& run, const PlannedPipeline& planned);
/// Returns the runtime of the plan, with the policies of its recipe. The runtime of the search overlaps
/// whatever any of the recipes overlaps.
Runtime runtime_of_plan(const PlannerRun& run, const Recipe* recipe);

/// `run` must outlive it.
PlanRequest request_of(const PlannerRun& run, const CostModel& costs);

/// The planner's answer. NoPlanFound when there is none by then.
PlannedPipeline propose_in_time(const PlanRequest& request, const PlannerRun& run, const Deadline& until);

}  // namespace pipesim

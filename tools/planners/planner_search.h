#pragma once

#include <string>
#include <vector>

#include "tools/cli/arguments.h"
#include "tools/cli/command.h"

namespace pipesim {

/// What planners of pipelines (tools/planners/planner.h) take beside the model, the topology and the plan's
/// options.
std::vector<Option> planner_options();
/// UsageError where an option does not go with the algorithm, planner or not.
void check_planner_options(const Arguments& arguments);
/// Plans, simulates the plan, reports both and writes the plan. The exit status is 1 when it does not fit
/// into memory.
int run_planner(const Arguments& arguments, Streams& streams);

}  // namespace pipesim

#pragma once

#include "tools/cli/arguments.h"
#include "tools/cli/command.h"

namespace pipesim {

/// Plans, simulates the plan, reports both and writes the plan. The exit status is 1 when it does not fit
/// into memory.
int run_planner(const Arguments& arguments, Streams& streams);

}  // namespace pipesim

#pragma once

#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// The options of `calibrate --runs`.
std::vector<Option> calibrate_runs_options();

/// The command that they belong to.
Command calibrate_command();

/// Fits constants of a cluster to a table of measured runs and writes them.
int run_calibrate_runs(const Arguments& arguments, Streams& streams);

}  // namespace pipesim

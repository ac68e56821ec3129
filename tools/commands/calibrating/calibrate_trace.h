#pragma once

#include <vector>

#include "tools/cli/command.h"

namespace pipesim {

/// The options of `calibrate --from-trace`.
std::vector<Option> calibrate_trace_options();

/// Tells what traces of a profiler say; writes constants and a trace of both where they are asked for.
/// `command`: whose options those that are not for traces are.
int run_calibrate_trace(const Command& command, const Arguments& arguments, Streams& streams);

}  // namespace pipesim

#pragma once

#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// The options of `calibrate --from-trace`.
std::vector<Option> calibrate_trace_options();

/// Reports what traces of a profiler say. Writes constants, and a trace of prediction and measurement, where
/// they are asked for. Options of `command` that are not for traces are refused.
int run_calibrate_trace(const Command& command, const Arguments& arguments, Streams& streams);

}  // namespace pipesim

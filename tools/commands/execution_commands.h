#pragma once

#include "tools/cli/command.h"

namespace pipesim {

/// What commands do that need `executor`, which takes as long to build as all the rest. In the program
/// pipesim-execution and in tests these are the functions of tools/execution. In the program pipesim, which
/// is built without `executor`, they start pipesim-execution with the same command line (hand_over.cc).
int run_execute(const Arguments& arguments, Streams& streams);
int run_calibrate(const Arguments& arguments, Streams& streams);
int run_devices(const Arguments& arguments, Streams& streams);
/// compare --execute
int run_compare_execution(const Arguments& arguments, Streams& streams);
/// import topology without a file; operands and --device have been checked.
int run_import_of_this_machine(const Arguments& arguments, Streams& streams);

}  // namespace pipesim

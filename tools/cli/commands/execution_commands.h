#pragma once

#include "tools/cli/base/command.h"

namespace pipesim {

/// The parts of commands that need `executor`, which takes as long to build as everything else. In the
/// program pipesim-execution and in tests these are the functions of commands/execution. The program pipesim
/// is built without `executor`; there they start pipesim-execution with the same command line (hand_over.cc).
int run_execute(const Arguments& arguments, Streams& streams);
int run_calibrate(const Arguments& arguments, Streams& streams);
int run_devices(const Arguments& arguments, Streams& streams);
/// Runs `compare --execute`.
int run_compare_execution(const Arguments& arguments, Streams& streams);
/// Runs `import topology` without a file; operands and --device have been checked.
int run_import_of_this_machine(const Arguments& arguments, Streams& streams);

}  // namespace pipesim

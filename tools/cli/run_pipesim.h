#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// Runs the command line `pipesim ARGS…` and returns its exit status: 0 done, 1 InputError or infeasible, 2
/// UsageError, 3 DeviceError, 70 a bug, 130 interrupted with nothing to show. Errors are one line on `err`
/// that starts with "pipesim: ". Nothing is thrown.
int run_pipesim(const std::vector<std::string>& args, std::istream& in, std::ostream& out, std::ostream& err);

/// Runs one command with the words behind its name, and returns its exit status. Throws the errors of
/// sim/base/errors.h, and OutOfMemory.
int run_command(const Command& command, const std::vector<std::string>& words, Streams& streams);

}  // namespace pipesim

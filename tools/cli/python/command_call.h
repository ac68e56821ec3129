#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace pipesim {

/// Runs a command as the command line would, as a BackgroundCall.
///
/// `words`: options and operands. Returns a dict: "status", the exit status; "document", what --json prints,
/// or None; "plan", a plan file that was made, or None; "stopped", whether it was asked to end; "messages",
/// what it wrote to standard error. Throws the errors of sim/base/errors.h, and OutOfMemory.
pybind11::dict call_command(const std::string& name, const std::vector<std::string>& words,
                            const pybind11::object& progress);

}  // namespace pipesim

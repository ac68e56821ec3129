#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace pipesim {

/// Runs a command as the command line would, on a thread of its own and without the interpreter's lock. The
/// calling thread waits; meanwhile it hands progress to `progress` (None: to nobody) as (text, share, best
/// time in seconds), and lets Python's handlers of signals run. What they or `progress` raise ends the
/// command and is raised again, but for StopIteration, with which the command ends with what it has so far.
///
/// `words`: options and operands. Returns a dict: "status", the exit status; "document", what --json prints,
/// or None; "plan", a plan file that was made, or None; "stopped", whether it was asked to end; "messages",
/// what it wrote to standard error. Throws the errors of sim/base/errors.h, and OutOfMemory.
pybind11::dict call_command(const std::string& name, const std::vector<std::string>& words,
                            const pybind11::object& progress);

}  // namespace pipesim

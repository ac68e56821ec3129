#pragma once

#include <pybind11/pybind11.h>

namespace pipesim {

/// What python/_pipesim.pyi says of the module, in parts. The extension is made in tools/cli/python, which
/// adds commands.

/// Turns the errors of sim/base/errors.h, and OutOfMemory, into the classes of pipesim/errors.py.
void bind_errors();
/// Models, topologies, and writing files.
void bind_inputs(pybind11::module_& module);
/// Problems and their plans.
void bind_problems(pybind11::module_& module);

}  // namespace pipesim

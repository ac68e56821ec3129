// The compiled part of the Python package `pipesim`: what python/module binds, and commands.
// python/_pipesim.pyi says what it has.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "python/module/bindings.h"
#include "python/module/interpreter_lock.h"
#include "tools/base/version.h"
#include "tools/cli/base/command.h"
#include "tools/cli/python/command_call.h"
#include "tools/cli/python/needs_execution.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// What each option of a command takes: its argument ("" for a flag), whether it may stand without it, and
// whether it may be given several times.
py::dict options_of(const std::string& command) {
  py::dict options;
  for (const Option& option : command_named(command).options)
    options[py::str(option.name)] = py::make_tuple(option.argument, !option.implied.empty(), option.repeated);
  return options;
}

}  // namespace
}  // namespace pipesim

PYBIND11_MODULE(_pipesim, m) {
  using namespace pipesim;
  using pybind11::arg;
  keep_threads_from_the_end();
  bind_errors();
  bind_inputs(m);
  bind_problems(m);
  pybind11::register_exception<NeedsExecution>(m, "NeedsExecution");
  m.def("version", &version_text);
  m.def("options_of", &options_of, arg("command"));
  m.def("call_command", &call_command, arg("name"), arg("words"), arg("progress"));
}

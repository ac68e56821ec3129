#pragma once

#include <string>

namespace pipesim {

/// The module pipesim.commands of the Python package: commands as functions of Python, with a keyword for
/// each option.
std::string python_functions();

}  // namespace pipesim

#pragma once

#include <string>

namespace pipesim {

/// python/pipesim/commands.py: commands as functions of Python, with a keyword for each option.
std::string python_functions();

}  // namespace pipesim

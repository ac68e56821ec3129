#pragma once

#include <string>

#include "tools/cli/base/command.h"

namespace pipesim {

/// pipesim(1), for man: all commands with all options. roff of the macros man(7).
std::string man_page();
/// pipesim-COMMAND(1), one command.
std::string man_page(const Command& command);

}  // namespace pipesim

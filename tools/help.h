#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/commands.h"

namespace pipesim {

std::string version_text();  ///< "pipesim 0.1.0\n"

/// What `pipesim help` prints: all commands with their summaries.
std::string overview();

/// What `pipesim help NAME` prints.
std::string help_text(const Command& command);

/// docs/commands.md, for all commands.
std::string manual_markdown();

/// Breaks text at spaces so that lines, indented by `indent`, have at most `width` columns; keeps blank
/// lines.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace pipesim

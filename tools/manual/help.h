#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/cli/command.h"

namespace pipesim {

/// What `pipesim help` prints: all commands with their summaries.
std::string overview();

/// Brief help fits a screen: common options and one example. All of it has every option, by group, and
/// details.
enum class HelpLength : std::uint8_t { Brief, All };
/// What `pipesim help NAME` and `pipesim help NAME --all` print.
std::string help_text(const Command& command, HelpLength length);

/// docs/commands.md, for all commands.
std::string manual_markdown();

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// What `pipesim help` prints: all commands with their summaries.
std::string overview();

/// Brief help fits a screen: common options and one example. All of it has every option, by group, and
/// details.
enum class HelpLength : std::uint8_t { Brief, All };
/// What `pipesim help NAME` and `pipesim help NAME --all` print.
std::string help_text(const Command& command, HelpLength length);

/// What `pipesim help` explains beside commands.
struct HelpTopic {
  std::string name;     ///< as in `pipesim help recipes`
  std::string summary;  ///< "the parts of recipes, such as tp8,pp4"
};
const std::vector<HelpTopic>& help_topics();
bool is_help_topic(std::string_view name);
/// What `pipesim help NAME` prints of a topic. InternalError where there is none of that name.
std::string topic_text(std::string_view name);

/// The manual of all commands and topics in Markdown.
std::string manual_markdown();

}  // namespace pipesim

#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace pipesim {

/// What help in every form (text, docs/commands.md, manual pages, completion) says of commands.

extern const char* const kAbout;       ///< what pipesim is
extern const char* const kAfterwards;  ///< where results go, what exit statuses mean

struct OptionSection {
  std::string title;  ///< "Common options"
  std::vector<Option> options;
};

/// All options, those of every command included: the common ones, then the others by group.
std::vector<OptionSection> option_sections(const Command& command);
/// All of them as one list.
std::vector<Option> all_options(const Command& command);
/// Whether brief help leaves something out.
bool has_more(const Command& command);

std::string usage_line(const Command& command);  ///< "pipesim models [MODEL] [options]"
std::string spelled(const Option& option);       ///< "-o, --output FILE"
std::string meaning(const Option& option);       ///< its help with its default
/// What it may be and its details, as lines; "" when there is nothing.
std::string further(const Option& option);

/// Words that may stand somewhere, for completion.
struct Words {
  std::vector<std::string> names;
  bool files = false;  ///< and names of files
  bool operator==(const Words&) const = default;
};
/// What an option takes after it.
Words words_of(const Option& option);
Words words_of(const Operand& operand);

}  // namespace pipesim

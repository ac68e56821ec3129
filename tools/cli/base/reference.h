#pragma once

#include <string>
#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// The texts about commands that help in every form uses: text, Markdown, manual pages, completion.

extern const char* const kAbout;       ///< what pipesim is
extern const char* const kAfterwards;  ///< where results go, what exit statuses mean

struct OptionSection {
  std::string title;  ///< "Common options"
  std::vector<Option> options;
};

/// All options of a command, including those that every command has: the common ones first, then the others
/// by group.
std::vector<OptionSection> option_sections(const Command& command);
/// All of them as one list.
std::vector<Option> all_options(const Command& command);
/// Whether brief help leaves something out.
bool has_more(const Command& command);

std::string usage_line(const Command& command);  ///< "pipesim models [MODEL] [options]"
std::string spelled(const Option& option);       ///< "-o, --output FILE"
std::string meaning(const Option& option);       ///< its help with its default
/// The option's choices and details, as lines; "" when it has none.
std::string further(const Option& option);

/// Words that completion offers at one place.
struct Words {
  std::vector<std::string> names;
  bool files = false;  ///< and names of files
  bool operator==(const Words&) const = default;
};
/// The words that may follow an option.
Words words_of(const Option& option);
Words words_of(const Operand& operand);

}  // namespace pipesim

#include "tools/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/table.h"

namespace pipesim {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 2;

constexpr const char* kAbout =
    "pipesim predicts how long a training iteration of a neural network takes when it is split over many "
    "devices, "
    "and searches for a split that is fast and fits into memory.";

constexpr const char* kAfterwards =
    "Results go to stdout, progress and messages to stderr. Exit status: 0 done, 1 bad input or infeasible "
    "(the "
    "message says which), 2 wrong usage, 3 a device failed, 70 a bug in pipesim, 130 "
    "interrupted with nothing to show.";

std::string spelled(const Option& option) {
  const std::string name =
      option.letter ? fmt::format("-{}, --{}", option.letter, option.name) : fmt::format("--{}", option.name);
  if (!option.implied.empty()) return fmt::format("{}[={}]", name, option.argument);
  return option.argument.empty() ? name : name + " " + option.argument;
}

std::string meaning(const Option& option) {
  if (option.default_value.empty()) return option.help;
  return fmt::format("{} (default: {})", option.help, option.default_value);
}

std::vector<Option> options_of(const Command& command) {
  std::vector<Option> all = command.options;
  all.push_back(
      {.name = "help", .argument = "", .default_value = "", .help = "print this text", .letter = 'h'});
  return all;
}

std::string usage_line(const Command& command) {
  std::string line = "pipesim " + command.name;
  for (const Operand& operand : command.operands) {
    const std::string name = operand.name + (operand.repeated ? "…" : "");
    line += operand.required ? " " + name : " [" + name + "]";
  }
  return line + (command.options.empty() ? "" : " [options]");
}

// A term and its meaning side by side, the meaning wrapped beside the widest term.
std::string definitions(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::size_t widest = 0;
  for (const auto& [term, text] : entries) widest = std::max(widest, display_width(term));
  const std::size_t column = kIndent + widest + 2;
  std::string result;
  for (const auto& [term, text] : entries) {
    const std::size_t used = kIndent + display_width(term);
    result += std::string(kIndent, ' ') + term + std::string(column - used, ' ');
    result += wrap(text, kWidth, column).substr(column);
  }
  return result;
}

std::string operand_and_option_help(const Command& command) {
  std::vector<std::pair<std::string, std::string>> operands, options;
  for (const Operand& operand : command.operands) operands.emplace_back(operand.name, operand.help);
  for (const Option& option : options_of(command)) options.emplace_back(spelled(option), meaning(option));
  return (operands.empty() ? "" : "\n" + definitions(operands)) + "\nOptions:\n" + definitions(options);
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

// A table cell must not end at a "|" of the text.
std::string markdown_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string markdown_rows(const std::string& head,
                          const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text = fmt::format("| {} | Meaning |\n|---|---|\n", head);
  for (const auto& [term, meaning] : entries)
    text += fmt::format("| `{}` | {} |\n", markdown_cell(term), markdown_cell(meaning));
  return text + "\n";
}

std::string capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string markdown_section(const Command& command) {
  std::string text = fmt::format("## pipesim {}\n\n{}.\n\n", command.name, capitalized(command.summary));
  text += fmt::format("```\n{}\n```\n\n{}\n", usage_line(command), wrap(command.description, kWidth, 0));
  std::vector<std::pair<std::string, std::string>> operands, options;
  for (const Operand& operand : command.operands) operands.emplace_back(operand.name, operand.help);
  for (const Option& option : options_of(command)) options.emplace_back(spelled(option), meaning(option));
  if (!operands.empty()) text += markdown_rows("Operand", operands);
  text += markdown_rows("Option", options);
  if (!command.examples.empty()) text += "```sh\n";
  for (const Example& example : command.examples)
    text += fmt::format("# {}\n{}\n", example.meaning, example.command);
  if (!command.examples.empty()) text += "```\n\n";
  return text;
}

}  // namespace

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  for (const std::string& line : split(text, "\n")) {
    std::string current(indent, ' ');
    std::size_t used = indent;
    for (const std::string& word : split(line, " ")) {
      const std::size_t needed = display_width(word);
      if (used > indent && used + 1 + needed > width) {
        result += current + "\n";
        current = std::string(indent, ' ');
        used = indent;
      }
      current += (used > indent ? " " : "") + word;
      used += (used > indent ? 1 : 0) + needed;
    }
    result += used > indent ? current + "\n" : "\n";
  }
  return result;
}

std::string version_text() { return fmt::format("pipesim {}\n", PIPESIM_VERSION); }

std::string overview() {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Command& command : commands()) entries.emplace_back(command.name, command.summary);
  return wrap(kAbout, kWidth, 0) + "\nUsage: pipesim COMMAND …\n\n" + definitions(entries) +
         "\n\"pipesim help COMMAND\" describes one of them; \"pipesim --version\" says which\nversion this "
         "is.\n\n" +
         wrap(kAfterwards, kWidth, 0);
}

std::string help_text(const Command& command) {
  std::string text =
      fmt::format("pipesim {}: {}.\n\nUsage: {}\n\n", command.name, command.summary, usage_line(command));
  text += wrap(command.description, kWidth, 0) + operand_and_option_help(command);
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const Example& example : command.examples)
    text += fmt::format("  {}\n{}", example.command, wrap(example.meaning, kWidth, 6));
  return text;
}

std::string manual_markdown() {
  std::string text =
      "<!-- Written by `pipesim help --markdown`; do not edit. -->\n\n# The commands of pipesim\n\n";
  text += wrap(kAbout, kWidth, 0) + "\n" + wrap(kAfterwards, kWidth, 0) + "\n";
  for (const Command& command : commands()) text += markdown_section(command);
  text.pop_back();
  return text;
}

}  // namespace pipesim

#include "tools/cli/manual/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "search/recipes/recipe.h"
#include "sim/base/errors.h"
#include "tools/base/split.h"
#include "tools/cli/base/reference.h"
#include "tools/render/base/table.h"
#include "tools/render/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kIndent = 2;
// A longer term has a line of its own.
constexpr std::size_t kWidestTerm = 21;

struct Definition {
  std::string term, text;
};

// Terms and their meanings side by side, the meanings wrapped beside the widest term.
std::string definitions(const std::vector<Definition>& entries) {
  std::size_t widest = 0;
  for (const Definition& d : entries) {
    if (const std::size_t width = display_width(d.term); width <= kWidestTerm)
      widest = std::max(widest, width);
  }
  const std::size_t column = kIndent + std::max<std::size_t>(widest, 4) + 2;
  std::string result;
  for (const Definition& d : entries) {
    const std::size_t used = kIndent + display_width(d.term);
    const std::string text = wrap(d.text, kHelpWidth, column);
    result += std::string(kIndent, ' ') + d.term;
    result += used + 2 > column ? "\n" + text : std::string(column - used, ' ') + text.substr(column);
  }
  return result;
}

std::string with_details(const std::string& text, const std::string& details, HelpLength length) {
  return length == HelpLength::Brief || details.empty() ? text : text + "\n" + details;
}

std::vector<Definition> operands_of(const Command& command, HelpLength length) {
  std::vector<Definition> entries;
  for (const Operand& operand : command.operands)
    entries.push_back({operand.name, with_details(operand.help, operand.details, length)});
  return entries;
}

std::vector<Definition> options_of(const OptionSection& section, HelpLength length) {
  std::vector<Definition> entries;
  for (const Option& option : section.options)
    entries.push_back({spelled(option), with_details(meaning(option), further(option), length)});
  return entries;
}

// "18 more options, details and examples: …"
std::string where_more_is(const Command& command) {
  std::size_t options = 0;
  for (const OptionSection& section : option_sections(command)) options += section.options.size();
  options -= option_sections(command).front().options.size();
  const std::string what = options == 0 ? "Details" : fmt::format("{} more options, details", options);
  return fmt::format("{} and examples: \"pipesim help {} --all\".\n", what, command.name);
}

std::string example_text(const Example& example) {
  return fmt::format("  {}\n{}", example.command, wrap(example.meaning, kHelpWidth, 6));
}

// A table cell must not end at a "|" of the text, nor break its line.
std::string markdown_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string markdown_rows(const std::string& head, const std::vector<Definition>& entries) {
  std::string text = fmt::format("| {} | Meaning |\n|---|---|\n", head);
  for (const Definition& d : entries)
    text += fmt::format("| `{}` | {} |\n", markdown_cell(d.term), markdown_cell(d.text));
  return text + "\n";
}

// An item of a list, with what it may be as a list below it.
std::string markdown_item(const std::string& term, const std::string& details,
                          const std::vector<Choice>& choices) {
  const bool told = std::ranges::any_of(choices, [](const Choice& c) { return !c.meaning.empty(); });
  std::string text = fmt::format("- `{}`:{}{}", term, details.empty() ? "" : " ", details);
  for (const Choice& c : choices)
    text += told ? fmt::format("\n  - `{}`: {}", c.name, c.meaning)
                 : fmt::format("{} `{}`", &c == &choices.front() ? "" : ",", c.name);
  return text + "\n";
}

std::string markdown_details(const Command& command) {
  std::string text;
  for (const Operand& operand : command.operands) {
    if (!operand.details.empty()) text += markdown_item(operand.name, operand.details, {});
  }
  for (const Option& option : all_options(command)) {
    if (!further(option).empty()) text += markdown_item("--" + option.name, option.details, option.choices);
  }
  return text.empty() ? "" : text + "\n";
}

std::string capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

constexpr const char* kAboutRecipes =
    "A recipe names the plan of a transformer as people who train one do: parts in any order, separated by "
    "commas, such as tp8,pp4,sp,mbs1. The degrees multiply up to the devices. The optimizer is adam, unless "
    "--optimizer says otherwise. Reports name the recipe of every plan, or the nearest one.";

std::vector<Definition> recipe_definitions() {
  std::vector<Definition> entries;
  for (const RecipePart& part : recipe_parts())
    entries.push_back({std::string(part.form), std::string(part.meaning)});
  return entries;
}

std::string markdown_section(const Command& command) {
  std::string text = fmt::format("## pipesim {}\n\n{}.\n\n", command.name, capitalized(command.summary));
  text += fmt::format("```\n{}\n```\n\n{}\n", usage_line(command), wrap(command.description, kHelpWidth, 0));
  if (!command.operands.empty()) text += markdown_rows("Operand", operands_of(command, HelpLength::Brief));
  for (const OptionSection& section : option_sections(command))
    text += markdown_rows(section.title, options_of(section, HelpLength::Brief));
  text += markdown_details(command);
  if (!command.examples.empty()) text += "```sh\n";
  for (const Example& example : command.examples)
    text += fmt::format("# {}\n{}\n", example.meaning, example.command);
  if (!command.examples.empty()) text += "```\n\n";
  return text;
}

// Where to read more.
std::string topics_line() {
  std::string topics;
  for (const HelpTopic& topic : help_topics())
    topics += fmt::format(" \"pipesim help {}\" lists {};", topic.name, topic.summary);
  return fmt::format(
      "\"pipesim help COMMAND\" describes one of them;{} \"pipesim --version\" says which version this is.",
      topics);
}

}  // namespace

const std::vector<HelpTopic>& help_topics() {
  static const std::vector<HelpTopic> topics{{"recipes", "the parts of recipes"}};
  return topics;
}

bool is_help_topic(std::string_view name) {
  return std::ranges::find(help_topics(), name, &HelpTopic::name) != help_topics().end();
}

std::string topic_text(std::string_view name) {
  if (!is_help_topic(name)) throw InternalError(fmt::format("there is no help topic \"{}\"", name));
  return "pipesim help recipes: the parts of recipes.\n\n" + wrap(kAboutRecipes, kHelpWidth, 0) + "\n" +
         definitions(recipe_definitions()) + "\nExample:\n" +
         example_text({"pipesim simulate --model llama3-8b --topology dgx-h100:2 --recipe tp8,sp",
                       "tensor and sequence parallel on a node, data parallel between nodes"});
}

std::string overview() {
  std::vector<Definition> entries;
  for (const Command& command : commands()) entries.push_back({command.name, command.summary});
  return wrap(kAbout, kHelpWidth, 0) + "\nUsage: pipesim COMMAND …\n\n" + definitions(entries) + "\n" +
         wrap(topics_line(), kHelpWidth, 0) + "\n" + wrap(kAfterwards, kHelpWidth, 0);
}

std::string help_text(const Command& command, HelpLength length) {
  const bool brief = length == HelpLength::Brief && has_more(command);
  const std::string description = brief ? split(command.description, "\n\n").front() : command.description;
  std::string text =
      fmt::format("pipesim {}: {}.\n\nUsage: {}\n\n", command.name, command.summary, usage_line(command));
  text += wrap(description, kHelpWidth, 0);
  if (!command.operands.empty()) text += "\n" + definitions(operands_of(command, length));
  std::vector<OptionSection> sections = option_sections(command);
  // Another line says how to see more.
  if (brief) std::erase_if(sections.front().options, [](const Option& o) { return o.name == "help-all"; });
  for (const OptionSection& section : sections) {
    text += fmt::format("\n{}:\n", section.title) + definitions(options_of(section, length));
    if (brief) break;
  }
  if (brief) text += "\n" + where_more_is(command);
  const std::size_t examples =
      brief ? std::min<std::size_t>(1, command.examples.size()) : command.examples.size();
  if (examples > 0) text += examples == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (std::size_t i = 0; i < examples; ++i) text += example_text(command.examples[i]);
  return text;
}

std::string manual_markdown() {
  std::string text = "# The commands of pipesim\n\n";
  text += wrap(kAbout, kHelpWidth, 0) + "\n" + wrap(kAfterwards, kHelpWidth, 0) + "\n";
  for (const Command& command : commands()) text += markdown_section(command);
  text += "## Recipes\n\n" + wrap(kAboutRecipes, kHelpWidth, 0) + "\n" +
          markdown_rows("Part", recipe_definitions());
  text.pop_back();
  return text;
}

}  // namespace pipesim

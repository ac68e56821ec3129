#include "tools/cli/base/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "models/zoo/zoo.h"
#include "tools/render/base/text.h"
#include "topologies/presets/presets.h"

namespace pipesim {

const char* const kAbout =
    "pipesim predicts how long a training iteration of a neural network takes when it is split over many "
    "devices, and searches for a split that is fast and fits into memory.";

const char* const kAfterwards =
    "Results go to stdout, progress and messages to stderr. Exit status: 0 done, 1 bad input, infeasible or "
    "out of memory (the message says which), 2 wrong usage, 3 a device failed, 70 a bug in pipesim, 130 "
    "interrupted with "
    "nothing to show.";

namespace {

struct GroupTitle {
  OptionGroup group;
  const char* title;
};

constexpr std::array kGroupTitles{
    GroupTitle{OptionGroup::Model, "Model and memory"}, GroupTitle{OptionGroup::Pipeline, "Pipelines"},
    GroupTitle{OptionGroup::Search, "Search"}, GroupTitle{OptionGroup::Execution, "Execution"},
    GroupTitle{OptionGroup::Output, "Output"}};

const std::vector<Option>& options_of_every_command() {
  static const std::vector<Option> options{{.name = "help",
                                            .argument = "",
                                            .default_value = "",
                                            .help = "print the help of the command",
                                            .letter = 'h'},
                                           {.name = "help-all",
                                            .argument = "",
                                            .default_value = "",
                                            .help = "print it with all options and details"}};
  return options;
}

bool is_common(const Command& command, const Option& option) {
  return command.common.empty() || std::ranges::find(command.common, option.name) != command.common.end();
}

template <class Part>
Words words_of_part(const Part& part, const std::string& kind) {
  Words words;
  for (const Choice& choice : part.choices) {
    const std::size_t colon = choice.name.find(':');  // what follows is to be written by hand
    words.names.push_back(choice.name.substr(0, colon == std::string::npos ? colon : colon + 1));
  }
  if (kind == "MODEL") {
    for (const ZooModel& model : zoo_models()) words.names.push_back(model.name);
  }
  if (kind == "TOPOLOGY") {
    for (const TopologyPreset& preset : topology_presets()) words.names.push_back(preset.name);
    words.names.emplace_back("cpu:");
  }
  if (kind == "COMMAND") {
    for (const Command& command : commands()) words.names.push_back(command.name);
  }
  words.files = kind == "FILE" || kind == "MODEL" || kind == "TOPOLOGY";
  return words;
}

}  // namespace

std::vector<OptionSection> option_sections(const Command& command) {
  std::vector<OptionSection> sections{{command.common.empty() ? "Options" : "Common options", {}}};
  if (command.common.empty()) sections.front().options = command.options;
  for (const std::string& name : command.common) {
    const auto found = std::ranges::find(command.options, name, &Option::name);
    if (found != command.options.end()) sections.front().options.push_back(*found);
  }
  for (const Option& option : options_of_every_command()) sections.front().options.push_back(option);
  for (const auto& [group, title] : kGroupTitles) {
    OptionSection section{title, {}};
    for (const Option& option : command.options) {
      if (option.group == group && !is_common(command, option)) section.options.push_back(option);
    }
    if (!section.options.empty()) sections.push_back(std::move(section));
  }
  return sections;
}

std::vector<Option> all_options(const Command& command) {
  std::vector<Option> all;
  for (const OptionSection& section : option_sections(command))
    all.insert(all.end(), section.options.begin(), section.options.end());
  return all;
}

bool has_more(const Command& command) {
  const auto long_option = [](const Option& option) { return !further(option).empty(); };
  const auto long_operand = [](const Operand& operand) { return !operand.details.empty(); };
  return !command.common.empty() || command.examples.size() > 1 ||
         command.description.find("\n\n") != std::string::npos ||
         std::ranges::any_of(command.options, long_option) ||
         std::ranges::any_of(command.operands, long_operand);
}

std::string usage_line(const Command& command) {
  std::string line = "pipesim " + command.name;
  for (const Operand& operand : command.operands) {
    const std::string name = operand.name + (operand.repeated ? "…" : "");
    line += operand.required ? " " + name : " [" + name + "]";
  }
  return line + (command.options.empty() ? "" : " [options]");
}

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

std::string further(const Option& option) {
  std::vector<std::string> lines, names;
  if (!option.details.empty()) lines.push_back(option.details);
  for (const Choice& choice : option.choices) {
    if (choice.meaning.empty()) {
      names.push_back(choice.name);
    } else {
      lines.push_back(fmt::format("{}: {}", choice.name, choice.meaning));
    }
  }
  if (!names.empty()) lines.push_back(fmt::format("One of {}.", fmt::join(names, ", ")));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Words words_of(const Option& option) { return words_of_part(option, option.argument); }
Words words_of(const Operand& operand) { return words_of_part(operand, operand.name); }

}  // namespace pipesim

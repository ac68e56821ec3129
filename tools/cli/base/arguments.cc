#include "tools/cli/base/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <string_view>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/reference.h"

namespace pipesim {
namespace {
namespace po = boost::program_options;

[[noreturn]] void refuse(const std::string& command, const std::string& message) {
  throw UsageError(fmt::format("{}: {}; see \"pipesim help {}\"", command, message, command));
}

// Boost collects the words that are no options under this name, which no option can have.
constexpr const char* kOperands = "operand words";

po::options_description described(const std::vector<Option>& options) {
  po::options_description description;
  for (const Option& option : options) {
    const std::string names = option.letter ? fmt::format("{},{}", option.name, option.letter) : option.name;
    if (option.argument.empty()) {
      description.add_options()(names.c_str(), "");
    } else {
      auto* value = po::value<std::string>();
      if (!option.implied.empty()) value->implicit_value(option.implied);
      description.add_options()(names.c_str(), value, "");
    }
  }
  description.add_options()(kOperands, po::value<std::vector<std::string>>(), "");
  return description;
}

std::string without_dashes(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

// Boost takes the word "-json" for the letter j, and so would say that -j is unknown.
std::string as_written(const std::string& option, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.starts_with(option)) return word.substr(0, word.find('='));
  }
  return option;
}

std::vector<std::string> commands_with(const std::string& option) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (std::ranges::find(command.options, option, &Option::name) != command.options.end())
      names.push_back("\"" + command.name + "\"");
  }
  return names;
}

std::string unknown_option(const std::string& word, const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(option.name);
  const std::string bare = without_dashes(word), nearest = nearest_name(bare, names);
  const std::vector<std::string> others = commands_with(bare);
  std::string hint;
  if (!others.empty() && word.starts_with("--")) {
    hint = fmt::format(" (an option of {})", list_names(others));
  } else if (!nearest.empty()) {
    hint = fmt::format(" (did you mean --{}?)", nearest);
  }
  return fmt::format("unknown option {}{}", word, hint);
}

bool is_repeated(const std::string& name, const std::vector<Option>& options) {
  return std::any_of(options.begin(), options.end(),
                     [&](const Option& o) { return o.name == name && o.repeated; });
}

std::string implied_by(const std::string& name, const std::vector<Option>& options) {
  for (const Option& option : options) {
    if (option.name == name) return option.implied;
  }
  return "";
}

std::string argument_of(const std::string& name, const std::vector<Option>& options) {
  for (const Option& option : options) {
    if (option.name == name) return option.argument;
  }
  return "";
}

// Boost's own messages speak of its concepts and guess at quotes; these say what the user has to change.
std::string explain(const po::error& error, const std::vector<Option>& options,
                    const std::vector<std::string>& words) {
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error))
    return unknown_option(as_written(unknown->get_option_name(), words), options);
  const auto* named = dynamic_cast<const po::error_with_option_name*>(&error);
  if (!named) return error.what();
  const std::string name = named->get_option_name();
  const std::string bare = without_dashes(name);
  const auto* syntax = dynamic_cast<const po::invalid_syntax*>(&error);
  if (!syntax) return fmt::format("option {}: {}", name, error.what());
  if (syntax->kind() == po::invalid_syntax::missing_parameter ||
      syntax->kind() == po::invalid_syntax::empty_adjacent_parameter)
    return fmt::format("option {} needs {}", name, argument_of(bare, options));
  if (syntax->kind() == po::invalid_syntax::extra_parameter)
    return fmt::format("option {} takes no value", name);
  return fmt::format("option {}: {}", name, error.what());
}

std::string wanted(const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& operand : operands) text += (text.empty() ? "" : " ") + operand.name;
  return text.empty() ? "no operands" : text;
}

// " (did you mean --model gpt?)" of a word that stands alone, where an option takes such words.
std::string meant_for(const std::string& word, const std::vector<Option>& options) {
  const std::string bare = word.substr(0, word.find(':'));
  for (const Option& option : options) {
    const std::vector<std::string> names = words_of(option).names;
    if (std::ranges::find(names, bare) != names.end())
      return fmt::format(" (did you mean --{} {}?)", option.name, word);
  }
  const bool takes_plan = std::ranges::find(options, "plan", &Option::name) != options.end();
  return takes_plan && word.ends_with(".json") ? fmt::format(" (did you mean --plan {}?)", word) : "";
}

void check_count(const std::string& command, const std::vector<Operand>& operands,
                 const std::vector<Option>& options, const std::vector<std::string>& words) {
  for (std::size_t i = words.size(); i < operands.size(); ++i) {
    if (operands[i].required) refuse(command, fmt::format("{} is missing", operands[i].name));
  }
  const bool endless = !operands.empty() && operands.back().repeated;
  if (!endless && words.size() > operands.size()) {
    const std::string& word = words[operands.size()];
    const std::string meant = meant_for(word, options);
    refuse(command, meant.empty() ? fmt::format("unexpected \"{}\" (it takes {})", word, wanted(operands))
                                  : fmt::format("unexpected \"{}\"{}", word, meant));
  }
}

template <class Number>
Number parsed(const std::string& command, const std::string& option, const std::string& text,
              const char* what, Number lowest, Number highest) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  // Written so that NaN is refused as well.
  if (whole && value >= lowest && value <= highest) return value;
  std::string allowed = what;
  if (highest != std::numeric_limits<Number>::max()) {
    allowed += fmt::format(" from {} to {}", lowest, highest);
  } else if (lowest != std::numeric_limits<Number>::lowest()) {
    allowed += fmt::format(" of at least {}", lowest);
  }
  refuse(command, fmt::format("option --{} needs {}, not \"{}\"", option, allowed, text));
}

}  // namespace

std::vector<Option> in_group(OptionGroup group, std::vector<Option> options) {
  for (Option& option : options) option.group = group;
  return options;
}

Arguments::Arguments(const std::string& command, const std::vector<Option>& options,
                     const std::vector<Operand>& operands, const std::vector<std::string>& words)
    : command_(command), words_(words) {
  const po::options_description description = described(options);
  po::positional_options_description positions;
  positions.add(kOperands, -1);
  // Without guessing: an abbreviation that works today would break when an option is added.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    const auto parsed =
        po::command_line_parser(words).options(description).positional(positions).style(style).run();
    for (const po::option& option : parsed.options) {
      if (option.string_key == kOperands) {
        operands_.insert(operands_.end(), option.value.begin(), option.value.end());
        continue;
      }
      const bool first = given_.insert(option.string_key).second;
      if (!first && !is_repeated(option.string_key, options))
        refuse(fmt::format("option --{} is given twice", option.string_key));
      std::vector<std::string>& all = all_values_[option.string_key];
      all.push_back(option.value.empty() ? implied_by(option.string_key, options) : option.value.front());
      values_[option.string_key] = all.front();
    }
  } catch (const po::error& error) {
    pipesim::refuse(command, explain(error, options, words));
  }
  check_count(command, operands, options, operands_);
  for (const Option& option : options) {
    known_.insert(option.name);
    if (!option.default_value.empty()) values_.emplace(option.name, option.default_value);
  }
}

void Arguments::refuse(const std::string& message) const { pipesim::refuse(command_, message); }

Arguments Arguments::with_default(const std::string& option, const std::string& value) const {
  Arguments changed = *this;
  if (!given(option)) changed.values_[option] = value;
  return changed;
}

Arguments Arguments::with(const std::string& option, const std::string& value) const {
  Arguments changed = *this;
  changed.values_[option] = value;
  changed.all_values_[option] = {value};
  changed.given_.insert(option);
  return changed;
}

bool Arguments::given(const std::string& option) const { return given_.contains(option); }

const std::string& Arguments::text(const std::string& option) const {
  const auto found = values_.find(option);
  if (found == values_.end()) throw InternalError(fmt::format("option --{} has no value", option));
  return found->second;
}

std::vector<std::string> Arguments::texts(const std::string& option) const {
  const auto found = all_values_.find(option);
  return found == all_values_.end() ? std::vector<std::string>() : found->second;
}

std::int64_t Arguments::integer(const std::string& option, std::int64_t lowest, std::int64_t highest) const {
  return parsed(command_, option, text(option), "a whole number", lowest, highest);
}

double Arguments::number(const std::string& option, double lowest, double highest) const {
  return parsed(command_, option, text(option), "a number", lowest, highest);
}

Seconds Arguments::duration(const std::string& option) const {
  try {
    return parse_duration(text(option));
  } catch (const InputError& error) {
    refuse(fmt::format("option --{}: {}", option, error.what()));
  }
}

const std::string& Arguments::choice(const std::string& option,
                                     const std::vector<std::string>& allowed) const {
  const std::string& value = text(option);
  for (const std::string& name : allowed) {
    if (name == value) return value;
  }
  refuse(fmt::format("option --{} is one of {}, not \"{}\"{}", option, list_names(allowed), value,
                     did_you_mean(value, allowed)));
}

}  // namespace pipesim

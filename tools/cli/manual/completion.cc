#include "tools/cli/manual/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/errors.h"
#include "tools/cli/base/reference.h"

namespace pipesim {
namespace {

std::string replaced(std::string text, std::string_view old, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
  return text;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> names_of_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

constexpr const char* kBashBegin =
    R"(# bash completion of pipesim, written by `pipesim help --completion bash`; do not edit.

# _pipesim_words CURRENT FILES [WORD...]: what begins with CURRENT, and files where FILES is 1.
_pipesim_words() {
  local current=$1 files=$2
  shift 2
  mapfile -t COMPREPLY < <(compgen -W "$*" -- "$current")
  if [[ $files == 1 ]]; then
    local -a names
    mapfile -t names < <(compgen -f -- "$current")
    ((${#names[@]} == 0)) || compopt -o filenames 2>/dev/null
    COMPREPLY+=("${names[@]}")
  fi
  # Such a word goes on: cpu:4.
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace 2>/dev/null
}

_pipesim() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  # bash takes the = of --option=VALUE for a word.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]] && ((COMP_CWORD > 2)); then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    _pipesim_words "$current" 0 )";

constexpr const char* kBashEnd = R"(  esac
}

complete -F _pipesim pipesim
)";

std::string bash_words(const Words& words) {
  return fmt::format("_pipesim_words \"$current\" {}{}{}", words.files ? 1 : 0,
                     words.names.empty() ? "" : " ", joined(words.names));
}

// What stands in one branch: values of options, options, operands.
std::string bash_command(const Command& command) {
  std::string values, names;
  for (const Option& option : all_options(command)) {
    names += (names.empty() ? "" : " ") + ("--" + option.name);
    if (option.letter) names += fmt::format(" -{}", option.letter);
    // What is implied needs no word after it.
    if (option.argument.empty() || !option.implied.empty()) continue;
    const std::string letter = option.letter ? fmt::format(" | -{}", option.letter) : "";
    values += fmt::format("        --{}{})\n          {}\n          return\n          ;;\n", option.name,
                          letter, bash_words(words_of(option)));
  }
  std::string text = fmt::format("    {})\n", command.name);
  if (!values.empty()) text += "      case $previous in\n" + values + "      esac\n";
  text +=
      fmt::format("      if [[ $current == -* ]]; then\n        _pipesim_words \"$current\" 0 {}\n", names);
  Words operands;
  for (const Operand& operand : command.operands) {
    const Words words = words_of(operand);
    operands.names.insert(operands.names.end(), words.names.begin(), words.names.end());
    operands.files = operands.files || words.files;
  }
  if (!command.operands.empty()) text += fmt::format("      else\n        {}\n", bash_words(operands));
  return text + "      fi\n      ;;\n";
}

std::string bash_script() {
  std::string text =
      kBashBegin + joined(names_of_commands()) + " --help --version\n    return\n  fi\n  case $command in\n";
  for (const Command& command : commands()) text += bash_command(command);
  return text + kBashEnd;
}

// Inside single quotes; brackets and colons end parts of what _arguments reads.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return replaced(result, "'", "'\\''");
}

std::string zsh_action(const Words& words) {
  std::vector<std::string> names;
  for (const std::string& name : words.names) names.push_back(zsh_text(name));
  const std::string list = fmt::format("({})", fmt::join(names, " "));
  if (!words.files) return names.empty() ? " " : list;
  if (names.empty()) return "_files";
  return fmt::format("{{_alternative \"names\\:name\\:{}\" \"files\\:file\\:_files\"}}",
                     replaced(list, ":", "\\:"));
}

std::string zsh_option(const Option& option) {
  std::string argument, before, name = "--" + option.name;
  if (!option.argument.empty()) {
    argument = fmt::format("{}:{}:{}", option.implied.empty() ? "" : ":", zsh_text(option.argument),
                           zsh_action(words_of(option)));
    name += option.implied.empty() ? "=" : "=-";
  }
  const std::string rest = fmt::format("[{}]{}", zsh_text(option.help), argument);
  if (option.repeated) before = "*";
  if (!option.letter) return fmt::format("'{}{}{}'", before, name, rest);
  // Either form is enough.
  return fmt::format("'(-{0} --{1})'{{-{0},{2}}}'{3}'", option.letter, option.name, name, rest);
}

std::string zsh_command(const Command& command) {
  std::string text = fmt::format("        {})\n          _arguments", command.name);
  for (const Option& option : all_options(command)) text += " \\\n            " + zsh_option(option);
  for (const Operand& operand : command.operands) {
    text += fmt::format(" \\\n            '{}:{}:{}'",
                        operand.repeated   ? "*"
                        : operand.required ? ""
                                           : ":",
                        zsh_text(operand.name), zsh_action(words_of(operand)));
  }
  return text + "\n          ;;\n";
}

std::string zsh_script() {
  std::string text =
      "#compdef pipesim\n# Written by `pipesim help --completion zsh`; do not edit.\n\n_pipesim() {\n"
      "  local context state state_descr line\n  typeset -A opt_args\n"
      "  _arguments -C '(- :)'{-h,--help}'[print all commands]' '(- :)--version[print the version]' \\\n"
      "    '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const Command& command : commands())
    text += fmt::format("        '{}:{}'\n", command.name, zsh_text(command.summary));
  text += "      )\n      _describe command commands\n      ;;\n    argument)\n      case $words[1] in\n";
  for (const Command& command : commands()) text += zsh_command(command);
  // Loaded as a function of that name, the file is its body.
  return text +
         "      esac\n      ;;\n  esac\n}\n\nif [ \"$funcstack[1]\" = _pipesim ]; then\n  _pipesim "
         "\"$@\"\nelse\n"
         "  compdef _pipesim pipesim\nfi\n";
}

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const Command& command, const Option& option) {
  std::string text =
      fmt::format("complete -c pipesim -n '__fish_seen_subcommand_from {}' -l {}", command.name, option.name);
  if (option.letter) text += fmt::format(" -s {}", option.letter);
  if (!option.argument.empty() && option.implied.empty()) {
    const Words words = words_of(option);
    text += words.files ? " -r -F" : " -x";
    if (!words.names.empty()) text += " -a " + fish_text(joined(words.names));
  }
  return text + " -d " + fish_text(option.help) + "\n";
}

std::string fish_script() {
  std::string text =
      "# Written by `pipesim help --completion fish`; do not edit.\n\ncomplete -c pipesim -f\n";
  text += "complete -c pipesim -n __fish_use_subcommand -l help -s h -d 'print all commands'\n";
  text += "complete -c pipesim -n __fish_use_subcommand -l version -d 'print the version'\n";
  for (const Command& command : commands())
    text += fmt::format("complete -c pipesim -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_text(command.summary));
  for (const Command& command : commands()) {
    text += "\n";
    for (const Option& option : all_options(command)) text += fish_option(command, option);
    for (const Operand& operand : command.operands) {
      const Words words = words_of(operand);
      if (words == Words{}) continue;
      text += fmt::format("complete -c pipesim -n '__fish_seen_subcommand_from {}'{}{} -d {}\n", command.name,
                          words.files ? " -F" : "",
                          words.names.empty() ? "" : " -a " + fish_text(joined(words.names)),
                          fish_text(operand.name));
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> completed_shells() { return {"bash", "zsh", "fish"}; }

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  throw InternalError(fmt::format("no completion for {}", shell));
}

}  // namespace pipesim

#include "tools/cli/manual/python_functions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <vector>

#include "tools/base/split.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/reference.h"
#include "tools/render/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t kPythonWidth = 110;

const std::set<std::string> kPrinting{"json", "markdown", "rows", "candidates", "explain",
                                      "help", "help-all", "list", "sensitivity"};
const std::set<std::string> kFailures{"mtbf", "checkpoint-time", "restart-time"};

// A function of Python that runs a command.
struct PythonFunction {
  std::string name, command, result;
  std::vector<std::string> flags = {};   // that it always gives
  bool (*has)(const Option&) = nullptr;  // which options are keywords, of those that are not about printing
  std::string summary = {}, description = {};  // "": the command's
  std::string returns = {};
};

bool says_what_is_simulated(const Option& option) {
  const auto subject = command_named("simulate").options;
  static const std::set<std::string> of_outputs{"output", "trace", "dot", "tokens"};
  return !of_outputs.contains(option.name) &&
         std::ranges::find(subject, option.name, &Option::name) != subject.end();
}

std::vector<PythonFunction> functions() {
  return {
      {.name = "simulate",
       .command = "simulate",
       .result = "Simulation",
       .returns = "What an iteration takes. A plan that does not fit into memory is a result, too."},
      {.name = "search",
       .command = "search",
       .result = "SearchResult",
       .returns = "The best plan and what is known about it."},
      {.name = "whatif",
       .command = "whatif",
       .result = "Study",
       .has = [](const Option& o) { return !kFailures.contains(o.name); },
       .returns = "A point for each combination of values."},
      {.name = "whatif_plan",
       .command = "whatif",
       .result = "PlanAnswers",
       .flags = {"sensitivity"},
       .has =
           [](const Option& o) {
             static const std::set<std::string> of_noise{"noise", "samples", "objective", "seed", "threads"};
             return says_what_is_simulated(o) || kFailures.contains(o.name) || of_noise.contains(o.name);
           },
       .summary = "tell what would change the time of one plan",
       .description = "Tells what a tenth more of each figure of the topology would bring. With noise, how "
                      "much iterations differ; with mtbf, how much of the time trains when devices fail.",
       .returns = "Sensitivities, and what noise and failures do."},
      {.name = "whatif_figures",
       .command = "whatif",
       .result = "Figures",
       .flags = {"list"},
       .has = says_what_is_simulated,
       .summary = "list what whatif can vary",
       .description = "Lists the figures of the topology, the model, the recipe and the runtime.",
       .returns = "Each figure with its value now."},
      {.name = "compare",
       .command = "compare",
       .result = "Comparison",
       .has =
           [](const Option& o) {
             static const std::set<std::string> of_runs{"plan", "random", "save-plans"};
             return o.group != OptionGroup::Execution && !of_runs.contains(o.name);
           },
       .returns = "A row for each baseline and recipe."},
      {.name = "accuracy",
       .command = "accuracy",
       .result = "Accuracy",
       .returns = "A report for each table."},
      {.name = "calibrate",
       .command = "calibrate",
       .result = "Calibration",
       .returns = "What was measured, the constants that were fitted, or what the traces tell."},
      {.name = "execute",
       .command = "execute",
       .result = "Execution",
       .returns =
           "Measured and predicted times. With check, a plan that computes something else is an error."},
      {.name = "export", .command = "export", .result = "Export", .returns = "The files that were written."}};
}

// "--state-sharding" as "state_sharding", "-o" as "output", but for command lines, which stand in backticks.
std::string in_python(const std::string& text) {
  static const std::regex option("(^|[^A-Za-z0-9-])--([a-z][a-z0-9-]*)"), output("(^|[ (])-o\\b"),
      status(", with exit status [0-9]+");
  const std::vector<std::string> parts = split(text, "`");
  std::vector<std::string> result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % 2 == 1) {
      result.push_back(parts[i]);
      continue;
    }
    std::string words = std::regex_replace(parts[i], output, "$1output");
    words = std::regex_replace(words, status, "");
    std::string& told = result.emplace_back();
    auto rest = words.cbegin();
    for (std::sregex_iterator m(words.begin(), words.end(), option), end; m != end; ++m) {
      std::string name = (*m)[2];
      std::ranges::replace(name, '-', '_');
      told.append(rest, (*m)[0].first);
      told += (*m)[1].str() + name;
      rest = (*m)[0].second;
    }
    told.append(rest, words.cend());
  }
  return fmt::format("{}", fmt::join(result, "`"));
}

// Names that Python keeps for itself get an underscore.
std::string keyword_of(const std::string& option) {
  std::string name = option;
  std::ranges::replace(name, '-', '_');
  static const std::set<std::string> reserved{
      "and",    "as",   "assert", "async",  "await",  "break",   "class", "continue",
      "def",    "del",  "elif",   "else",   "except", "finally", "for",   "from",
      "global", "if",   "import", "in",     "is",     "lambda",  "not",   "nonlocal",
      "or",     "pass", "raise",  "return", "try",    "while",   "with",  "yield"};
  return reserved.contains(name) ? name + "_" : name;
}

std::string type_of(const Option& option) {
  static const std::set<std::string> paths{"FILE", "OUT", "PATH", "TABLE", "FOLDER", "DIR"};
  static const std::set<std::string> numbers{"N",    "S",    "SECONDS", "PERCENT", "RATE",
                                             "SIZE", "TIME", "MARGIN",  "N|LIST"};
  if (option.name == "set") return "Settings";
  if (option.name == "vary") return "Axes";
  if (option.name == "plan") return option.repeated ? "Plans" : "PlanLike";
  if (option.argument == "MODEL") return "ModelLike";
  if (option.argument == "TOPOLOGY") return "TopologyLike";
  if (paths.contains(option.argument)) return option.repeated ? "Paths" : "PathLike";
  if (!option.implied.empty()) return "Union[bool, str]";
  if (option.repeated) return "Texts";
  return numbers.contains(option.argument) ? "Number" : "str";
}

std::string parameter(const Option& option) {
  if (option.argument.empty()) return fmt::format("    {}: bool = False,\n", keyword_of(option.name));
  return fmt::format("    {}: Optional[{}] = None,\n", keyword_of(option.name), type_of(option));
}

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string described(const Option& option) {
  std::string text = in_python(sentence(meaning(option)));
  std::vector<std::string> names;
  for (const Choice& choice : option.choices) names.push_back(choice.name);
  if (!names.empty()) text += fmt::format(" One of {}.", fmt::join(names, ", "));
  if (!option.details.empty()) text += " " + in_python(sentence(option.details));
  std::ranges::replace(text, '\n', ' ');
  constexpr std::size_t kArgumentIndent = 12;
  return wrap(fmt::format("{}: {}", keyword_of(option.name), text), kPythonWidth, kArgumentIndent)
      .replace(0, kArgumentIndent, "        ");
}

std::vector<Option> keywords_of(const PythonFunction& function) {
  std::vector<Option> options;
  for (const Option& option : all_options(command_named(function.command))) {
    if (kPrinting.contains(option.name)) continue;
    if (function.has == nullptr || function.has(option)) options.push_back(option);
  }
  return options;
}

std::string as_title(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// Without the paragraphs that are about a terminal.
std::string for_python(const std::string& description) {
  static const std::regex terminal("Ctrl-C|With --execute|[Ee]xit status is");
  std::vector<std::string> kept;
  for (const std::string& paragraph : split(description, "\n\n")) {
    if (!std::regex_search(paragraph, terminal)) kept.push_back(in_python(paragraph));
  }
  return fmt::format("{}", fmt::join(kept, "\n\n"));
}

std::string definition(const PythonFunction& function) {
  const Command& command = command_named(function.command);
  const std::vector<Option> options = keywords_of(function);
  std::string text = fmt::format("\n\ndef {}(\n    *,\n", function.name);
  for (const Option& option : options) text += parameter(option);
  text += fmt::format("    progress: Optional[ProgressCallback] = None,\n) -> {}:\n", function.result);
  const std::string& summary = function.summary.empty() ? command.summary : function.summary;
  const std::string& description = function.description.empty() ? command.description : function.description;
  text += fmt::format("    \"\"\"{}.\n\n", as_title(summary));
  text += wrap(for_python(description), kPythonWidth, 4) + "\n    Args:\n";
  for (const Option& option : options) text += described(option);
  text += "        progress: a function that is called with a Progress; it may end the call.\n";
  text += fmt::format("\n    Returns:\n        {}\n    \"\"\"\n", function.returns);
  std::string flags;
  for (const std::string& flag : function.flags) flags += fmt::format(", \"{}\"", flag);
  return text + fmt::format("    return {}._of(call(\"{}\", locals(){}))\n", function.result,
                            function.command, flags);
}

}  // namespace

std::string python_functions() {
  std::vector<std::string> names, results;
  for (const PythonFunction& function : functions()) {
    names.push_back(fmt::format("\"{}\"", function.name));
    results.push_back(function.result);
  }
  std::ranges::sort(results);
  std::string text = fmt::format(
      "# Written by `pipesim help --python`; do not edit.\n"
      "\"\"\"Commands as functions. Each keyword is an option of the command line; None means that it is not "
      "given.\n\n"
      "Errors are the exceptions of pipesim.errors, each with the one line that the command would print.\n"
      "\"\"\"\n\n"
      "from __future__ import annotations\n\n"
      "from typing import Optional, Union\n\n"
      "from .calling import PathLike, ProgressCallback, call\n"
      "from .keywords import Axes, ModelLike, Number, Paths, PlanLike, Plans, Settings, Texts, TopologyLike\n"
      "from .results import {}\n\n"
      "__all__ = [{}]\n",
      fmt::join(results, ", "), fmt::join(names, ", "));
  for (const PythonFunction& function : functions()) text += definition(function);
  return text;
}

}  // namespace pipesim

#include "tools/cli/manual/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/base/split.h"
#include "tools/base/version.h"
#include "tools/cli/base/reference.h"

namespace pipesim {
namespace {

// Text that roff prints as it is: backslashes and hyphens mean something to it, and so do a dot and a quote
// at the beginning of a line.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

// An argument of a macro.
std::string macro_argument(std::string_view text) {
  std::string result = roff(text);
  for (std::size_t at = 0; (at = result.find('"', at)) != std::string::npos; at += 4)
    result.replace(at, 1, "\\(dq");
  return "\"" + result + "\"";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string head(const std::string& name) {
  return fmt::format(
      ".\\\" Written by `pipesim help --man`; do not edit.\n.TH {} 1 \"{}\" \"pipesim {}\" \"User "
      "Commands\"\n",
      macro_argument(upper(name)), kCommitDate, version_number());
}

std::string paragraphs(const std::string& text) {
  std::string result;
  for (const std::string& paragraph : split(text, "\n\n"))
    result += (result.empty() ? "" : ".PP\n") + roff(paragraph) + "\n";
  return result;
}

// A term, what it means, and further lines below that.
std::string definition(const std::string& term, const std::string& meaning, const std::string& more) {
  std::string text = fmt::format(".TP\n{}\n{}\n", term, roff(meaning));
  if (more.empty()) return text;
  for (const std::string& line : split(more, "\n")) text += ".br\n" + roff(line) + "\n";
  return text;
}

// -o, --output in bold, FILE in italics.
std::string term_of(const Option& option) {
  std::string text = option.letter ? fmt::format("\\fB\\-{}\\fR, ", option.letter) : "";
  text += fmt::format("\\fB\\-\\-{}\\fR", roff(option.name));
  if (option.argument.empty()) return text;
  if (!option.implied.empty()) return text + fmt::format("[=\\fI{}\\fR]", roff(option.argument));
  return text + fmt::format(" \\fI{}\\fR", roff(option.argument));
}

std::string operands_and_options(const Command& command, const char* heading) {
  std::string text;
  if (!command.operands.empty()) text += fmt::format("{} Operands\n", heading);
  for (const Operand& operand : command.operands)
    text += definition(fmt::format("\\fI{}\\fR", roff(operand.name)), operand.help, operand.details);
  for (const OptionSection& section : option_sections(command)) {
    text += fmt::format("{} {}\n", heading, macro_argument(section.title));
    for (const Option& option : section.options)
      text += definition(term_of(option), meaning(option), further(option));
  }
  return text;
}

std::string examples(const std::vector<Example>& list) {
  std::string text;
  for (const Example& example : list)
    text += fmt::format("{}{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", text.empty() ? "" : ".PP\n",
                        roff(example.meaning), roff(example.command));
  return text;
}

std::string usage(const Command& command) {
  std::string text = fmt::format("\\fBpipesim {}\\fR", roff(command.name));
  for (const Operand& operand : command.operands) {
    const std::string name = fmt::format("\\fI{}\\fR{}", roff(operand.name), operand.repeated ? "…" : "");
    text += operand.required ? " " + name : " [" + name + "]";
  }
  return text + (command.options.empty() ? "\n" : " [options]\n");
}

}  // namespace

std::string man_page() {
  std::string text =
      head("pipesim") + ".SH NAME\npipesim \\- plan and predict parallel training of neural networks\n";
  text +=
      ".SH SYNOPSIS\n\\fBpipesim\\fR \\fICOMMAND\\fR [options]\n.br\n\\fBpipesim\\fR \\fB\\-\\-version\\fR | "
      "\\fB\\-\\-help\\fR\n";
  text += ".SH DESCRIPTION\n" + paragraphs(kAbout) + ".PP\n" + paragraphs(kAfterwards);
  text += ".SH COMMANDS\n";
  for (const Command& command : commands())
    text += definition(fmt::format("\\fB{}\\fR", roff(command.name)), command.summary, "");
  for (const Command& command : commands()) {
    text += fmt::format(".SH {}\n{}.PP\n", macro_argument(upper("pipesim " + command.name)), usage(command));
    text += paragraphs(command.description) + operands_and_options(command, ".SS");
    if (!command.examples.empty()) text += ".SS Examples\n" + examples(command.examples);
  }
  text += ".SH ENVIRONMENT\n" +
          definition("\\fBPIPESIM_PLUGIN_PATH\\fR",
                     "folders, separated by colons, in which libraries of pipesim are looked for first", "");
  return text + ".SH SEE ALSO\nThe folder doc/pipesim beside the folder of this page: README.md and docs.\n";
}

std::string man_page(const Command& command) {
  const std::string name = "pipesim-" + command.name;
  std::string text = head(name) + fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(command.summary));
  text += ".SH SYNOPSIS\n" + usage(command) + ".SH DESCRIPTION\n" + paragraphs(command.description);
  text += ".SH OPTIONS\n" + operands_and_options(command, ".SS");
  if (!command.examples.empty()) text += ".SH EXAMPLES\n" + examples(command.examples);
  return text + ".SH SEE ALSO\n.BR pipesim (1)\n";
}

}  // namespace pipesim

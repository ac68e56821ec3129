// What the build prints into files: docs/commands.md, docs/models.md, python/pipesim/commands.py.

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "models/operator_kind.h"
#include "models/zoo/zoo.h"
#include "tests/slow_test.h"
#include "tests/tools/command_line.h"
#include "tools/cli/base/reference.h"
#include "tools/cli/manual/help.h"
#include "tools/cli/manual/model_reference.h"
#include "tools/cli/manual/python_functions.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

std::string in_a_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

// From a heading to the next of its level.
std::string section(const std::string& page, const std::string& level, const std::string& title) {
  const std::string heading = "\n" + level + " " + title + "\n";
  EXPECT_EQ(times(page, heading), 1U) << heading;
  const std::size_t begin = page.find(heading);
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n" + level + " ", begin + 1) - begin);
}

// What stands before the parts of a section.
std::string first_table(const std::string& whole) { return whole.substr(0, whole.find("\n### ")); }

std::size_t cells(const std::string& row) { return times(row, "|") - times(row, "\\|") - 1; }

// Rows with other cells than the head of their table has, and blocks that are not closed.
std::vector<std::string> faults_of(const std::string& page) {
  std::vector<std::string> faults;
  bool in_block = false;
  std::string head, line;
  std::istringstream lines(page);
  while (std::getline(lines, line)) {
    if (line.starts_with("```")) in_block = !in_block;
    const bool row = !in_block && line.starts_with("|");
    if (!row) {
      head.clear();
    } else if (head.empty()) {
      head = line;
    } else if (!line.ends_with(" |") && !line.ends_with("-|")) {
      faults.push_back("does not end: " + line);
    } else if (cells(line) != cells(head)) {
      faults.push_back("has other cells than its head: " + line);
    }
  }
  if (in_block) faults.emplace_back("a block is not closed");
  return faults;
}

TEST(PrintedPages, FaultsAreFound) {
  EXPECT_THAT(faults_of("| a | b |\n|---|---|\n| 1 | x\\|y |\n\n| a |\n|---|\n"), IsEmpty());
  EXPECT_THAT(faults_of("| a | b |\n|---|---|\n| 1 |\n"),
              testing::ElementsAre("has other cells than its head: | 1 |"));
  EXPECT_THAT(faults_of("| a |\n|---|\n| 1\n"), testing::ElementsAre("does not end: | 1"));
  EXPECT_THAT(faults_of("```\n| a |\n"), testing::ElementsAre("a block is not closed"));
}

TEST(PrintedPages, TheManualHasEveryCommandAndOptionOnce) {
  const std::string page = manual_markdown();
  EXPECT_EQ(pipesim_run({"help", "--markdown"}), (Outcome{0, page, ""}));
  EXPECT_THAT(faults_of(page), IsEmpty());
  for (const Command& command : commands()) {
    const std::string text = section(page, "##", "pipesim " + command.name);
    for (const Option& option : all_options(command))
      EXPECT_EQ(times(text, "\n| `" + in_a_cell(spelled(option)) + "` |"), 1U)
          << command.name << " --" << option.name;
    for (const Operand& operand : command.operands)
      EXPECT_EQ(times(text, "\n| `" + in_a_cell(operand.name) + "` |"), 1U) << command.name;
    for (const Example& example : command.examples)
      EXPECT_EQ(times(text, "\n" + example.command + "\n"), 1U) << example.command;
  }
}

SLOW_TEST(PrintedPages, TheReferenceHasEveryModelAndKindOnce) {
  const Outcome outcome = pipesim_run({"models", "--markdown"});
  EXPECT_EQ(outcome.status, 0);
  const std::string& page = outcome.out;
  EXPECT_THAT(faults_of(page), IsEmpty());
  const std::string zoo = section(page, "##", "The zoo"), kinds = section(page, "##", "Kinds of operators");
  for (const ZooModel& model : zoo_models()) {
    EXPECT_EQ(times(first_table(zoo), "\n| `" + model.name + "` |"), 1U) << model.name;
    const std::string text = section(zoo, "###", model.name);
    for (const ZooOption& option : model.options)
      EXPECT_EQ(times(text, "\n| `" + option.key + "` |"), 1U) << model.name << ":" << option.key;
  }
  for (const OperatorKind& kind : operator_kinds()) {
    EXPECT_EQ(times(first_table(kinds), "\n| " + kind.name + " |"), 1U) << kind.name;
    EXPECT_THAT(section(kinds, "###", kind.name), HasSubstr("\"kind\": \"" + kind.name + "\"")) << kind.name;
  }
}

TEST(PrintedPages, FunctionsOfPythonAreDefinedOnce) {
  const std::string text = python_functions();
  EXPECT_EQ(pipesim_run({"help", "--python"}), (Outcome{0, text, ""}));
  for (const char* name : {"simulate", "search", "whatif", "whatif_plan", "whatif_figures", "compare",
                           "accuracy", "calibrate", "execute", "export"}) {
    EXPECT_EQ(times(text, "\ndef " + std::string(name) + "(\n"), 1U) << name;
    EXPECT_EQ(times(text.substr(text.find("__all__"), text.find("\n\n\n") - text.find("__all__")),
                    "\"" + std::string(name) + "\""),
              1U)
        << name;
  }
  EXPECT_EQ(times(text, "\ndef "), 10U);
}

TEST(PrintedPages, FunctionsOfPythonSayOptionsAsKeywords) {
  const std::string text = python_functions();
  EXPECT_THAT(text, HasSubstr("    state_sharding: Optional[str] = None,\n"));
  EXPECT_THAT(text, HasSubstr("    not_: Optional[Texts] = None,\n"));  // Python keeps "not" for itself
  EXPECT_THAT(text, HasSubstr("    use_fewer: bool = False,\n"));
  EXPECT_THAT(text, HasSubstr("`pipesim models NAME --json`"));  // a command line as it is
  EXPECT_THAT(text, Not(HasSubstr("--state-sharding")));
  EXPECT_THAT(text, Not(HasSubstr("    json: ")));
}

}  // namespace
}  // namespace pipesim

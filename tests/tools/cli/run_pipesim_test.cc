#include "tools/cli/run_pipesim.h"

#include <gmock/gmock.h>

#include <regex>

#include "tests/tools/command_line.h"
#include "tools/base/version.h"
#include "tools/cli/manual/help.h"
#include "tools/render/base/table.h"
#include "tools/render/base/text.h"

namespace pipesim {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(CommandLine, WithoutArgumentsShowsHelpAsAnError) {
  EXPECT_EQ(pipesim_run({}), (Outcome{2, "", overview()}));
}

TEST(CommandLine, HelpAndVersionAreResults) {
  EXPECT_EQ(pipesim_run({"--help"}), (Outcome{0, overview(), ""}));
  EXPECT_EQ(pipesim_run({"-h"}), (Outcome{0, overview(), ""}));
  EXPECT_EQ(pipesim_run({"help"}), (Outcome{0, overview(), ""}));
  EXPECT_EQ(pipesim_run({"--version"}), (Outcome{0, version_text(), ""}));
  EXPECT_EQ(pipesim_run({"-V"}), pipesim_run({"--version"}));
  EXPECT_EQ(pipesim_run({"version"}), pipesim_run({"--version"}));
  const std::string known = "commit [0-9a-f]{12}(, modified)?";
  EXPECT_TRUE(
      std::regex_match(version_text(), std::regex("pipesim [0-9]+\\.[0-9]+\\.[0-9]+ \\((" + known +
                                                  "|commit unknown: not built from a git checkout)\\)\n")))
      << version_text();
}

TEST(CommandLine, RefusesUnknownCommands) {
  EXPECT_EQ(
      pipesim_run({"hepl"}),
      (Outcome{2, "", "pipesim: unknown command \"hepl\" (did you mean \"help\"?); see \"pipesim help\"\n"}));
  EXPECT_EQ(pipesim_run({"xyzzy"}),
            (Outcome{2, "", "pipesim: unknown command \"xyzzy\"; see \"pipesim help\"\n"}));
  EXPECT_EQ(pipesim_run({"help", "hepl"}), pipesim_run({"hepl"}));
}

TEST(CommandLine, RefusesUnknownOptions) {
  EXPECT_EQ(
      pipesim_run({"help", "--markdwon"}),
      (Outcome{2, "",
               "pipesim: help: unknown option --markdwon (did you mean --markdown?); see \"pipesim help "
               "help\"\n"}));
  EXPECT_EQ(
      pipesim_run({"--frobnicate"}),
      (Outcome{
          2, "",
          "pipesim: found --frobnicate where a command is needed, such as search; see \"pipesim help\"\n"}));
  EXPECT_EQ(
      pipesim_run({"--verison"}),
      (Outcome{2, "",
               "pipesim: found --verison where a command is needed (did you mean --version?); see \"pipesim "
               "help\"\n"}));
}

TEST(CommandLine, DescribesEveryCommand) {
  for (const Command& command : commands()) {
    const Outcome help = pipesim_run({"help", command.name});
    EXPECT_EQ(help.status, 0) << command.name;
    EXPECT_EQ(help.err, "") << command.name;
    EXPECT_THAT(help.out,
                StartsWith("pipesim " + command.name + ": " + command.summary + ".\n\nUsage: pipesim "));
    EXPECT_EQ(help.out, help_text(command, HelpLength::Brief));
    EXPECT_EQ(pipesim_run({command.name, "--help"}), help) << command.name;
    EXPECT_EQ(pipesim_run({command.name, "-h", "--json"}), help) << command.name;
    EXPECT_THAT(overview(), HasSubstr("\n  " + command.name + " ")) << command.name;
  }
}

TEST(CommandLine, EveryCommandIsDescribedInFull) {
  for (const Command& command : commands()) {
    EXPECT_NE(command.run, nullptr) << command.name;
    EXPECT_FALSE(command.summary.ends_with('.')) << command.name;
    EXPECT_THAT(command.description, EndsWith(".")) << command.name;
    EXPECT_FALSE(command.examples.empty()) << command.name;
    for (const Option& option : command.options) EXPECT_THAT(option.help, Not(EndsWith("."))) << option.name;
    for (const Operand& operand : command.operands)
      EXPECT_THAT(operand.help, Not(EndsWith("."))) << operand.name;
    for (const Example& example : command.examples)
      EXPECT_THAT(example.command, HasSubstr("pipesim " + command.name)) << command.name;
  }
}

TEST(CommandLine, HelpFitsATerminal) {
  for (const Command& command : commands()) {
    std::istringstream lines(help_text(command, HelpLength::All) + help_text(command, HelpLength::Brief));
    for (std::string line; std::getline(lines, line);) {
      // Commands in examples are not broken, so that they can be copied.
      if (line.starts_with("  pipesim ") || line.starts_with("  source ")) continue;
      EXPECT_LE(display_width(line), 80U) << command.name << ": " << line;
    }
  }
}

TEST(Wrap, BreaksAtSpacesAndKeepsParagraphs) {
  EXPECT_EQ(wrap("one two three\n\nfour", 8, 0), "one two\nthree\n\nfour\n");
  EXPECT_EQ(wrap("one two", 5, 2), "  one\n  two\n");
  EXPECT_EQ(wrap("unbreakable", 5, 0), "unbreakable\n");
  EXPECT_EQ(wrap("µµµ µµµ", 7, 0), "µµµ µµµ\n") << "columns, not bytes, count";
}

}  // namespace
}  // namespace pipesim

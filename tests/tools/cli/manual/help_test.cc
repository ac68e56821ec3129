#include "tools/cli/manual/help.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "search/recipes/recipe.h"
#include "tests/tools/command_line.h"
#include "tools/cli/base/reference.h"
#include "tools/cli/manual/completion.h"
#include "tools/cli/manual/man_page.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string replaced_all(std::string text, const std::string& old, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
  return text;
}

TEST(Help, BriefHelpFitsAScreen) {
  constexpr std::size_t kScreen = 24;
  for (const Command& command : commands()) {
    if (!has_more(command)) continue;
    EXPECT_LE(count_lines(help_text(command, HelpLength::Brief)), kScreen)
        << help_text(command, HelpLength::Brief);
  }
}

TEST(Help, OptionTextsAreShort) {
  constexpr std::size_t kMost = 72;
  for (const Command& command : commands()) {
    for (const Option& option : command.options) EXPECT_LE(display_width(option.help), kMost) << option.help;
    for (const Operand& operand : command.operands)
      EXPECT_LE(display_width(operand.help), kMost) << operand.help;
  }
  std::istringstream lines(manual_markdown());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| ")) {
      EXPECT_LE(display_width(line), 150U) << line;
    }
  }
}

TEST(Help, BriefHelpHasTheCommonOptionsAndTheLongOneAll) {
  for (const Command& command : commands()) {
    const std::string brief = help_text(command, HelpLength::Brief),
                      all = help_text(command, HelpLength::All);
    for (const Option& option : all_options(command)) EXPECT_THAT(all, HasSubstr("  " + spelled(option)));
    for (const std::string& name : command.common) {
      const auto found = std::ranges::find(command.options, name, &Option::name);
      ASSERT_NE(found, command.options.end()) << command.name << " has no option " << name;
      EXPECT_THAT(brief, HasSubstr("\n  " + spelled(*found) + " ")) << command.name;
    }
    EXPECT_EQ(all_options(command).size(), command.options.size() + 2) << command.name;
    EXPECT_EQ(pipesim_run({command.name, "--help-all"}), (Outcome{0, all, ""}));
    EXPECT_EQ(pipesim_run({"help", command.name, "--all"}), (Outcome{0, all, ""}));
    EXPECT_EQ(pipesim_run({"--help-all", command.name}), (Outcome{0, all, ""}));
    EXPECT_EQ(pipesim_run({"--help", command.name}), (Outcome{0, brief, ""}));
  }
}

TEST(Help, OptionsOfSearchStandInGroups) {
  std::vector<std::string> titles;
  for (const OptionSection& section : option_sections(command_named("search")))
    titles.push_back(section.title);
  EXPECT_THAT(titles,
              testing::ElementsAre("Common options", "Model and memory", "Pipelines", "Search", "Output"));
  const std::string brief = pipesim_run({"help", "search"}).out;
  EXPECT_THAT(brief, HasSubstr("more options, details and examples: \"pipesim help search --all\"."));
  EXPECT_THAT(brief, Not(HasSubstr("--gradient-piece")));
  EXPECT_THAT(pipesim_run({"help", "search", "--all"}).out,
              HasSubstr("  --threads N        threads to run chains or simulations of recipes on\n"));
}

TEST(Help, AllHelpIsThatOfEveryCommand) {
  const std::string all = pipesim_run({"help", "--all"}).out;
  EXPECT_THAT(all, testing::StartsWith(overview()));
  for (const Command& command : commands()) EXPECT_THAT(all, HasSubstr(help_text(command, HelpLength::All)));
}

TEST(Help, OfRecipesHasEveryPart) {
  const Outcome help = pipesim_run({"help", "recipes"});
  EXPECT_EQ(help.status, 0) << help.err;
  const Outcome markdown = pipesim_run({"help", "--markdown"});
  for (const RecipePart& part : recipe_parts()) {
    EXPECT_THAT(help.out, testing::HasSubstr("\n  " + std::string(part.form) + "  ")) << part.form;
    EXPECT_THAT(markdown.out, testing::HasSubstr("| `" + std::string(part.form) + "` |")) << part.form;
  }
  EXPECT_THAT(pipesim_run({"help"}).out, testing::HasSubstr("\"pipesim help recipes\""));
  EXPECT_EQ(pipesim_run({"help", "recipes", "--man"}).status, 2);
}

TEST(Help, DetailsOfRecipesAreShort) {
  for (const char* name : {"simulate", "compare", "search", "execute"}) {
    for (const Option& option : command_named(name).options) {
      if (option.name == "recipe") {
        EXPECT_LT(option.details.size(), 200U) << name;
      }
    }
  }
}

TEST(Help, FormsExcludeEachOther) {
  EXPECT_EQ(pipesim_run({"help", "--man", "--markdown"}),
            (Outcome{2, "",
                     "pipesim: help: --all, --markdown, --man, --completion, --python and --schema "
                     "exclude each other; see \"pipesim help help\"\n"}));
  EXPECT_EQ(
      pipesim_run({"help", "search", "--completion", "bash"}),
      (Outcome{
          2, "",
          "pipesim: help: --markdown, --completion, --python and --schema describe no command: leave COMMAND "
          "out; see \"pipesim help help\"\n"}));
  EXPECT_EQ(
      pipesim_run({"help", "--completion", "tcsh"}),
      (Outcome{2, "",
               "pipesim: help: option --completion is one of bash, zsh, fish, not \"tcsh\" (did you mean "
               "\"bash\"?); see \"pipesim help help\"\n"}));
}

TEST(Help, GivesPythonNoKeywordsThatItKeepsForItself) {
  const std::string functions = pipesim_run({"help", "--python"}).out;
  EXPECT_THAT(functions, HasSubstr("\n    for_: Optional[str] = None,\n"));
  EXPECT_THAT(functions, HasSubstr("\n    not_: Optional["));
  EXPECT_THAT(functions, testing::Not(HasSubstr("\n    for: ")));
}

TEST(ManPage, HasEveryCommandAndOption) {
  const std::string whole = man_page();
  EXPECT_EQ(pipesim_run({"help", "--man"}), (Outcome{0, whole, ""}));
  for (const Command& command : commands()) {
    const std::string page = man_page(command);
    EXPECT_EQ(pipesim_run({"help", command.name, "--man"}), (Outcome{0, page, ""}));
    EXPECT_THAT(page, HasSubstr(".SH NAME\npipesim\\-" + command.name + " \\- "));
    EXPECT_THAT(whole, HasSubstr("\n.SH \"PIPESIM "));
    const std::size_t begin = whole.find("\n\\fBpipesim " + command.name + "\\fR");
    ASSERT_NE(begin, std::string::npos) << command.name;
    const std::string section = whole.substr(begin, whole.find("\n.SH ", begin) - begin);
    for (const Option& option : all_options(command)) {
      const std::string term = "\\fB\\-\\-" + replaced_all(option.name, "-", "\\-") + "\\fR";
      EXPECT_THAT(section, HasSubstr(term)) << command.name;
      EXPECT_THAT(page, HasSubstr(term)) << command.name;
    }
  }
}

TEST(ManPage, PrintsWhatRoffWouldRead) {
  Command command;
  command.name = "x";
  command.summary = "a\\b";
  command.description = ".TH\n'quote' -o.";
  command.examples = {{"pipesim x \\n", "why"}};
  const std::string page = man_page(command);
  EXPECT_THAT(page, HasSubstr("pipesim\\-x \\- a\\eb\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.TH\n\\&'quote' \\-o.\n"));
  EXPECT_THAT(page, HasSubstr("\npipesim x \\en\n"));
}

// The words of a script, split at everything that is part of none.
std::set<std::string> words_in(const std::string& script) {
  std::set<std::string> words;
  std::string word;
  for (const char c : script) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') {
      word += c;
    } else if (!word.empty()) {
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

TEST(Completion, ScriptsNameEveryCommandOptionAndChoice) {
  for (const std::string& shell : completed_shells()) {
    const std::string script = completion_script(shell);
    EXPECT_EQ(pipesim_run({"help", "--completion", shell}), (Outcome{0, script, ""}));
    const std::set<std::string> words = words_in(script);
    const auto expect = [&](const std::string& word) {
      EXPECT_TRUE(words.contains(word)) << shell << " does not know " << word;
    };
    for (const Command& command : commands()) {
      expect(command.name);
      // Scripts for fish have option names without dashes.
      for (const Option& option : all_options(command)) {
        expect(shell == "fish" ? option.name : "--" + option.name);
        for (const Choice& choice : option.choices) expect(choice.name.substr(0, choice.name.find(':')));
      }
    }
    for (const char* name : {"gpt3-175b", "resnet50", "p100-4x4", "dgx-a100", "cpu"}) expect(name);
  }
}

TEST(Completion, KnowsWhatOptionsTake) {
  const Command& search = command_named("search");
  const auto words = [&](const std::string& name) {
    return words_of(*std::ranges::find(search.options, name, &Option::name));
  };
  EXPECT_THAT(words("algorithm").names, testing::IsSupersetOf({"mcmc", "auto", "dapple", "data-parallel"}));
  EXPECT_THAT(words("schedule").names, testing::IsSupersetOf({"gpipe", "1f1b", "zb-auto:"}));
  EXPECT_THAT(words("model").names, testing::Contains("llama3-8b"));
  EXPECT_TRUE(words("model").files);
  EXPECT_EQ(words("output"), (Words{{}, true}));
  EXPECT_EQ(words("seconds"), Words{});
}

}  // namespace
}  // namespace pipesim

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "tools/cli/manual/completion.h"
#include "tools/cli/manual/file_schemas.h"
#include "tools/cli/manual/help.h"
#include "tools/cli/manual/man_page.h"
#include "tools/cli/manual/python_functions.h"

namespace pipesim {
namespace {

std::string all_help() {
  std::string text = overview();
  for (const Command& command : commands())
    text += "\n" + std::string(80, '=') + "\n\n" + help_text(command, HelpLength::All);
  return text;
}

std::string help_for(const Arguments& arguments) {
  const std::vector<const char*> forms{"all", "markdown", "man", "completion", "python", "schema"};
  const auto given = [&](const char* form) { return arguments.given(form); };
  if (std::ranges::count_if(forms, given) > 1)
    arguments.refuse("--all, --markdown, --man, --completion, --python and --schema exclude each other");
  const bool of_one = !arguments.operands().empty();
  const std::vector<const char*> of_none{"markdown", "completion", "python", "schema"};
  if (of_one && std::ranges::any_of(of_none, given))
    arguments.refuse(
        "--markdown, --completion, --python and --schema describe no command: leave COMMAND out");
  if (arguments.given("markdown")) return manual_markdown();
  if (arguments.given("python")) return python_functions();
  if (arguments.given("schema")) return file_schema(arguments.choice("schema", kinds_of_schemas()));
  if (arguments.given("completion"))
    return completion_script(arguments.choice("completion", completed_shells()));
  if (!of_one) return arguments.given("man") ? man_page() : arguments.given("all") ? all_help() : overview();
  if (is_help_topic(arguments.operands().front())) {
    if (arguments.given("man")) arguments.refuse("--man is of commands, and recipes are none");
    return topic_text(arguments.operands().front());
  }
  const Command& command = command_named(arguments.operands().front());
  if (arguments.given("man")) return man_page(command);
  return help_text(command, arguments.given("all") ? HelpLength::All : HelpLength::Brief);
}

int run_help(const Arguments& arguments, Streams& streams) {
  streams.out << help_for(arguments);
  return 0;
}

}  // namespace

Command help_command() {
  std::vector<Choice> shells;
  for (const std::string& shell : completed_shells()) shells.push_back({shell});
  std::vector<Choice> files;
  for (const std::string& kind : kinds_of_schemas()) files.push_back({kind});
  return {.name = "help",
          .summary = "describe a command",
          .description = "Lists all commands, or describes one of them, or a topic: recipes.",
          .operands = {{.name = "COMMAND",
                        .help = "the command or topic to describe; default: list all",
                        .required = false}},
          .options = {{.name = "all",
                       .argument = "",
                       .default_value = "",
                       .help = "show all options and details, not only the common ones"},
                      {.name = "markdown",
                       .argument = "",
                       .default_value = "",
                       .help = "print the manual of all commands in Markdown"},
                      {.name = "man",
                       .argument = "",
                       .default_value = "",
                       .help = "print a man page, for all commands or for one"},
                      {.name = "completion",
                       .argument = "SHELL",
                       .default_value = "",
                       .help = "print a script for completion in a shell",
                       .choices = shells},
                      {.name = "python",
                       .argument = "",
                       .default_value = "",
                       .help = "print the functions of Python: the module pipesim.commands"},
                      {.name = "schema",
                       .argument = "KIND",
                       .default_value = "",
                       .help = "print the JSON Schema of a kind of files, for editors",
                       .choices = files}},
          .examples = {{"pipesim help models", "what models takes"},
                       {"pipesim help recipes", "the parts of recipes such as tp8,pp4"},
                       {"pipesim help search --all", "every option of search"},
                       {"source <(pipesim help --completion bash)", "completion in this shell"}},
          .run = run_help};
}

}  // namespace pipesim

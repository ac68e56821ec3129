#include <ostream>

#include "tools/help.h"

namespace pipesim {
namespace {

int run_help(const Arguments& arguments, Streams& streams) {
  if (arguments.given("markdown")) {
    streams.out << manual_markdown();
  } else if (arguments.operands().empty()) {
    streams.out << overview();
  } else {
    streams.out << help_text(command_named(arguments.operands().front()));
  }
  return 0;
}

}  // namespace

Command help_command() {
  return {.name = "help",
          .summary = "describe a command",
          .description = "Lists all commands, or describes one of them.",
          .operands = {{.name = "COMMAND",
                        .help = "which command; without one all are listed",
                        .required = false}},
          .options = {{.name = "markdown",
                       .argument = "",
                       .default_value = "",
                       .help = "print the manual of all commands; this is what docs/commands.md holds"}},
          .examples = {{"pipesim help models", "what models takes"}},
          .run = run_help};
}

}  // namespace pipesim

#include "tools/commands.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

// Each is defined in tools/command_NAME.cc.
Command search_command();
Command simulate_command();
Command compare_command();
Command execute_command();
Command calibrate_command();
Command models_command();
Command topologies_command();
Command import_command();
Command devices_command();
Command help_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      search_command(), simulate_command(),   compare_command(), execute_command(), calibrate_command(),
      models_command(), topologies_command(), import_command(),  devices_command(), help_command(),
  };
  return all;
}

const Command& command_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  throw UsageError(
      fmt::format("unknown command \"{}\"{}; see \"pipesim help\"", name, did_you_mean(name, names)));
}

}  // namespace pipesim

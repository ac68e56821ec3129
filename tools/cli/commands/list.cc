#include "tools/cli/base/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/presets/presets.h"

namespace pipesim {

// Each is defined in tools/cli/commands/NAME.cc.
Command search_command();
Command simulate_command();
Command whatif_command();
Command compare_command();
Command report_command();
Command solve_command();
Command execute_command();
Command calibrate_command();
Command accuracy_command();
Command collective_command();
Command models_command();
Command topologies_command();
Command import_command();
Command export_command();
Command devices_command();
Command help_command();

namespace {

// What a word that is no command was meant for: models and topologies have names, too.
std::string meant_by(std::string_view word, const std::vector<std::string>& names) {
  const std::string_view bare = word.substr(0, word.find(':'));
  if (names_zoo_model(word))
    return fmt::format(" (a model: \"pipesim models {0}\", \"pipesim search --model {0} …\")", word);
  const auto is_named = [&](const TopologyPreset& preset) { return preset.name == bare; };
  if (std::ranges::any_of(topology_presets(), is_named))
    return fmt::format(" (a topology: \"pipesim topologies {0}\", \"pipesim search --topology {0} …\")",
                       word);
  if (word.ends_with(".json"))
    return fmt::format(" (a file: \"pipesim simulate --plan {}\" shows a plan)", word);
  return did_you_mean(word, names);
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      search_command(),   simulate_command(),   whatif_command(),  compare_command(),
      report_command(),   solve_command(),      execute_command(), calibrate_command(),
      accuracy_command(), collective_command(), models_command(),  topologies_command(),
      export_command(),   import_command(),     devices_command(), help_command(),
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
      fmt::format("unknown command \"{}\"{}; see \"pipesim help\"", name, meant_by(name, names)));
}

}  // namespace pipesim

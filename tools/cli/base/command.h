#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/base/arguments.h"
#include "tools/cli/base/streams.h"

namespace pipesim {

struct Example {
  std::string command;  ///< "pipesim models resnet50"
  std::string meaning;
};

/// A subcommand: what help says about it, and what it does. `pipesim help` in all its forms, the manual
/// pages, completion in shells and the argument parser all read this one description.
struct Command {
  std::string name;
  std::string summary;      ///< one line, in lower case, without a full stop
  std::string description;  ///< paragraphs, separated by "\n\n"; brief help has the first alone
  std::vector<Operand> operands;
  std::vector<Option> options;
  /// Names of the options that brief help shows, in its order; empty: all of them.
  std::vector<std::string> common = {};
  std::vector<Example> examples;  ///< brief help has the first alone
  /// Returns the exit status, 0 when done; errors are thrown (sim/base/errors.h).
  int (*run)(const Arguments& arguments, Streams& streams) = nullptr;
};

/// All commands, in the order in which help lists them.
const std::vector<Command>& commands();

/// UsageError with "did you mean" when there is none.
const Command& command_named(std::string_view name);

}  // namespace pipesim

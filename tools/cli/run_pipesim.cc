#include "tools/cli/run_pipesim.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <istream>
#include <new>
#include <optional>
#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/base/version.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/escaped_stream.h"
#include "tools/cli/base/output_files.h"
#include "tools/cli/manual/help.h"

namespace pipesim {
namespace {

constexpr int kInputError = 1, kUsageError = 2, kDeviceError = 3, kInternalError = 70;

// The help that is asked for among the words of a command.
std::optional<HelpLength> help_wanted(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto has = [&](const char* word) { return std::find(words.begin(), end, word) != end; };
  if (has("--help-all")) return HelpLength::All;
  return has("--help") || has("-h") ? std::optional(HelpLength::Brief) : std::nullopt;
}

// Options before a command: "pipesim --help search" is meant as it is read.
int run_without_command(const std::vector<std::string>& args, Streams& streams) {
  const std::string& first = args[0];
  if (first == "--version" || first == "-V" || first == "version") {
    streams.out << version_text();
    return 0;
  }
  if (first == "--help" || first == "-h" || first == "--help-all") {
    const HelpLength length = first == "--help-all" ? HelpLength::All : HelpLength::Brief;
    streams.out << (args.size() > 1 ? help_text(command_named(args[1]), length) : overview());
    return 0;
  }
  const std::vector<std::string> known{"--version", "--help"};
  const std::string nearest = nearest_name(first, known);
  throw UsageError(
      fmt::format("found {} where a command is needed{}; see \"pipesim help\"", first,
                  nearest.empty() ? ", such as search" : fmt::format(" (did you mean {}?)", nearest)));
}

int dispatch(const std::vector<std::string>& args, Streams& streams) {
  if (args.empty()) {
    streams.err << overview();
    return kUsageError;
  }
  if (args[0].starts_with('-') || args[0] == "version") return run_without_command(args, streams);
  const Command& command = command_named(args[0]);
  const std::vector<std::string> words(args.begin() + 1, args.end());
  if (const auto length = help_wanted(words)) {
    streams.out << help_text(command, *length);
    return 0;
  }
  return run_command(command, words, streams);
}

// Says what was left out of a config.json, or guessed: all commands take one as their model. Those that
// import one say it themselves.
void tell_what_a_config_leaves_out(const Arguments& arguments, std::ostream& err) {
  std::string model;
  if (arguments.has("model")) model = arguments.text("model");
  if (arguments.command() == "models" && !arguments.operands().empty()) model = arguments.operands().front();
  if (model.empty()) return;
  for (const std::string& what : left_out_of_config(with_settings(model, arguments.texts("set"))))
    err << "pipesim: " << *model_file(model) << ": " << what << "\n";
}

int report(std::ostream& err, const std::exception& error, int status) {
  err << "pipesim: " << error.what() << "\n";
  return status;
}

}  // namespace

int run_command(const Command& command, const std::vector<std::string>& words, Streams& streams) {
  const auto too_large = [&] {
    return out_of_memory(fmt::format("running {}", command.name),
                         "Take a smaller model, fewer devices or fewer microbatches");
  };
  return with_memory(too_large, [&] {
    const Arguments arguments(command.name, command.options, command.operands, words);
    require_own_output_files(arguments);
    tell_what_a_config_leaves_out(arguments, streams.err);
    return command.run(arguments, streams);
  });
}

int run_pipesim(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
                std::ostream& err) {
  EscapedStream shown(out), told(err);
  Streams streams{in, shown, told};
  try {
    return dispatch(args, streams);
  } catch (const InputError& error) {
    return report(told, error, kInputError);
  } catch (const UsageError& error) {
    return report(told, error, kUsageError);
  } catch (const DeviceError& error) {
    return report(told, error, kDeviceError);
  } catch (const OutOfMemory& error) {
    return report(told, error, kInputError);
  } catch (const std::bad_alloc&) {  // not even the message of another one could be made
    told << "pipesim: out of memory\n";
    return kInputError;
  } catch (const InternalError& error) {
    return report(told, error, kInternalError);
  } catch (const std::exception& error) {
    return report(told, InternalError(error.what()), kInternalError);
  }
}

}  // namespace pipesim

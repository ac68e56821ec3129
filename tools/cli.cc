#include "tools/cli.h"

#include <algorithm>
#include <exception>
#include <istream>
#include <ostream>

#include "sim/base/errors.h"
#include "tools/commands.h"
#include "tools/help.h"

namespace pipesim {
namespace {

constexpr int kInputError = 1, kUsageError = 2, kDeviceError = 3, kInternalError = 70;

bool asks_for_help(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--help") != end || std::find(words.begin(), end, "-h") != end;
}

int dispatch(const std::vector<std::string>& args, Streams& streams) {
  if (args.empty()) {
    streams.err << overview();
    return kUsageError;
  }
  if (args[0] == "--version") {
    streams.out << version_text();
    return 0;
  }
  if (args[0] == "--help" || args[0] == "-h") {
    streams.out << overview();
    return 0;
  }
  const Command& command = command_named(args[0]);
  const std::vector<std::string> words(args.begin() + 1, args.end());
  if (asks_for_help(words)) {
    streams.out << help_text(command);
    return 0;
  }
  return command.run(Arguments(command.name, command.options, command.operands, words), streams);
}

int report(std::ostream& err, const std::exception& error, int status) {
  err << "pipesim: " << error.what() << "\n";
  return status;
}

}  // namespace

int run_pipesim(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
                std::ostream& err) {
  Streams streams{in, out, err};
  try {
    return dispatch(args, streams);
  } catch (const InputError& error) {
    return report(err, error, kInputError);
  } catch (const UsageError& error) {
    return report(err, error, kUsageError);
  } catch (const DeviceError& error) {
    return report(err, error, kDeviceError);
  } catch (const InternalError& error) {
    return report(err, error, kInternalError);
  } catch (const std::exception& error) {
    return report(err, InternalError(error.what()), kInternalError);
  }
}

}  // namespace pipesim

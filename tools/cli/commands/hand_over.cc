#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/searching/launched_peers.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "pipesim-execution";

// Beside this program, or where a package puts programs that are not called by hand.
fs::path execution_program() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = (here / "../libexec/pipesim").lexically_normal();
  for (const fs::path& folder : {here, installed}) {
    if (fs::exists(folder / kProgram, error)) return folder / kProgram;
  }
  throw DeviceError(
      fmt::format("the program {}, which runs plans, is neither in {} nor in {}; tools/pipesim builds it",
                  kProgram, here.string(), installed.string()));
}

[[noreturn]] void hand_over(const Arguments& arguments, Streams& streams) {
  const fs::path program = execution_program();
  std::vector<std::string> words{program.string(), arguments.command()};
  words.insert(words.end(), arguments.words().begin(), arguments.words().end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  streams.out.flush();
  streams.err.flush();
  execv(program.c_str(), argv.data());
  throw DeviceError(fmt::format("can't start {}: {}", program.string(), std::strerror(errno)));
}

}  // namespace

int run_execute(const Arguments& arguments, Streams& streams) { hand_over(arguments, streams); }
int run_calibrate(const Arguments& arguments, Streams& streams) { hand_over(arguments, streams); }
int run_devices(const Arguments& arguments, Streams& streams) { hand_over(arguments, streams); }
int run_compare_execution(const Arguments& arguments, Streams& streams) { hand_over(arguments, streams); }
int run_import_of_this_machine(const Arguments& arguments, Streams& streams) {
  hand_over(arguments, streams);
}
std::unique_ptr<PeerProcesses> peers_of_launcher(const Arguments& arguments, Streams& streams) {
  if (processes_of_launcher() == 1) return nullptr;
  hand_over(arguments, streams);
}

}  // namespace pipesim

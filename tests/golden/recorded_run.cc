#include "tests/golden/recorded_run.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "sim/base/files.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// What reports say of the time that pipesim itself took, and of the cores that it used.
const std::vector<std::string> kVaries{
    R"(planned by ([\w-]+) in [0-9.]+ [mun]?s)", R"([0-9.]+ a second, [0-9.]+ [mun]?s)", R"([0-9]+ threads?)",
    R"(optimal +[0-9]+\.[0-9])",  // how long a solver took for what it has proven
    R"x("(wall_time_s|proposals_per_second|threads)": [0-9.e+-]+)x"};

bool on_path(const std::string& program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

int gpus() {
  int found = 0;
  while (std::system(fmt::format("nvidia-smi -i {} >/dev/null 2>&1", found).c_str()) == 0) ++found;
  return found;
}

}  // namespace

std::vector<RecordedRun> recorded_runs(const fs::path& golden) {
  std::vector<RecordedRun> runs;
  for (const fs::directory_entry& entry : fs::directory_iterator(golden)) {
    if (!entry.is_directory()) continue;
    const std::vector<std::string> command = lines_of(entry.path() / "cmd");
    if (command.size() != 1)
      throw std::runtime_error(
          fmt::format("{}: found {} lines, one is needed", (entry.path() / "cmd").string(), command.size()));
    RecordedRun run{entry.path(), command.front(), std::nullopt, lines_of(entry.path() / "matches.txt"),
                    lines_of(entry.path() / "needs")};
    if (fs::exists(entry.path() / "expected.txt")) run.expected = read_file(entry.path() / "expected.txt");
    runs.push_back(std::move(run));
  }
  std::ranges::sort(runs, {}, &RecordedRun::folder);
  return runs;
}

std::string output_of(const std::string& command, const fs::path& folder, const fs::path& program) {
  const fs::path out = folder / ".stdout", err = folder / ".stderr", bin = folder / "tools";
  fs::create_directories(bin);
  if (!fs::exists(bin / "pipesim")) {
    write_file(bin / "pipesim", fmt::format("#!/bin/sh\nexec '{}' \"$@\"\n", program.string()));
    fs::permissions(bin / "pipesim", fs::perms::owner_all);
  }
  const std::string script = fmt::format(
      "cd '{}' && export PATH=\"$PWD/tools:$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 && {{ {}\n}} </dev/null >'{}' "
      "2>'{}'",
      folder.string(), command, out.string(), err.string());
  const int status = std::system(script.c_str());
  std::string text = read_file(out);
  const std::string errors = read_file(err);
  if (!errors.empty()) text += "--- stderr\n" + errors;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code != 0) text += fmt::format("--- exit status {}\n", code);
  fs::remove(out);
  fs::remove(err);
  return text;
}

// Where a curve over wall time runs depends on the machine's speed; its labels do not.
std::string without_curves_over_time(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  bool over_time = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(", by wall time")) over_time = true;
    if (line.find("└") != std::string::npos) over_time = false;
    if (over_time) line = std::regex_replace(line, std::regex("┤[^a-z]*"), "┤~");
    kept += line + "\n";
  }
  if (!text.ends_with('\n') && !kept.empty()) kept.pop_back();
  return kept;
}

std::string settled(const std::string& output) {
  std::string text = without_curves_over_time(output);
  for (const std::string& pattern : kVaries) text = std::regex_replace(text, std::regex(pattern), "~");
  // Signs of life, of which a slower machine prints more, and the end of an axis of wall time.
  text = std::regex_replace(text, std::regex(R"(pipesim: [0-9]+ proposals, [^\n]*\n)"), "");
  text = std::regex_replace(
      text,
      std::regex(
          R"(pipesim: ([0-9]+ of [0-9]+ points|[0-9]+ of [0-9]+ recipes bounded|looking for crossovers|choosing runs|judging by|predicting [0-9]+ runs|pricing splits|[0-9]+ transfers and)[^\n]*\n)"),
      "");
  text = std::regex_replace(
      text, std::regex(R"(pipesim: [^\n]*(, simulated [0-9]+ times|of at most [0-9]+ runs predicted)\n)"),
      "");
  text = std::regex_replace(text, std::regex(R"(\n +0 +[0-9.]+ [mun]?s\n)"), "\n~\n");
  const std::string nothing_else = "--- stderr\n";
  if (text.ends_with(nothing_else)) text.erase(text.size() - nothing_else.size());
  return text;
}

std::string unmatched(const std::string& output, const std::vector<std::string>& matches) {
  std::istringstream lines(output);
  std::string line;
  for (const std::string& pattern : matches) {
    const std::regex expression(pattern);
    bool met = false;
    while (!met && std::getline(lines, line)) met = std::regex_match(line, expression);
    if (!met) return pattern;
  }
  return "";
}

bool has(const std::string& need) {
  if (need == "gpu") return gpus() >= 1;
  if (need == "gpus") return gpus() >= 2;
  if (need == "hosts") return false;
  if (need == "mpirun" || need == "torchrun") return on_path(need);
  throw std::runtime_error(
      fmt::format("found the need \"{}\", allowed: gpu, gpus, hosts, mpirun, torchrun", need));
}

}  // namespace pipesim

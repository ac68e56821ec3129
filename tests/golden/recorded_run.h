#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

/// A recorded run is a folder tests/golden/NAME:
///
/// - `cmd`: the command, as a person types it into a shell;
/// - `expected.txt`: what it printed: stdout, then, where there is any, "--- stderr" and that, and "--- exit
///   status N" where it is not 0. What pipesim prints of its own speed counts as "~".
/// - `matches.txt` instead, where measured figures decide even which lines there are: a regular expression
///   a line, for lines of the output in that order. Other lines may stand between. The exit status must be 0.
/// - `needs` (optional): what a machine must have, a word a line: gpu, gpus (two or more), hosts (several: no
///   test has them), mpirun, torchrun. Elsewhere the run is skipped. With `needs`, both other files may be
///   missing: then only the exit status must be 0.
struct RecordedRun {
  std::filesystem::path folder;
  std::string command;
  std::optional<std::string> expected;
  std::vector<std::string> matches, needs;
};

/// All runs below `golden`, by name. Throws std::runtime_error where a folder has no `cmd` of one line.
std::vector<RecordedRun> recorded_runs(const std::filesystem::path& golden);

/// Runs a command in `folder` by `sh`, with `program` as `pipesim` and as `tools/pipesim`; its output in the
/// form of expected.txt.
std::string output_of(const std::string& command, const std::filesystem::path& folder,
                      const std::filesystem::path& program);

/// Returns the output with "~" for what a command prints of its own speed and of this machine's cores.
std::string settled(const std::string& output);

/// The first expression that no line matches, after the lines that matched those before it; "" when all do.
std::string unmatched(const std::string& output, const std::vector<std::string>& matches);

/// Whether this machine has what `need` names. Throws std::runtime_error on unknown names.
bool has(const std::string& need);

}  // namespace pipesim

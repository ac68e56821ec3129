#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/settings/settings.h"
#include "tools/interop/shell/shell_script.h"

namespace pipesim {

/// What a run of torchtitan is configured with.
struct TorchtitanFile {
  Settings settings;
  bool main = false;                          ///< as the main branch names settings, else as 0.2 does
  std::optional<std::string> schedule = {};   ///< the CSV that the steps of a pipeline are read from
  std::vector<std::string> notes = {};        ///< what was taken, and need not be so
  std::optional<std::int64_t> launched = {};  ///< devices that a script starts
};

/// Whether a file of this name and text is a TOML file or a program in Python for torchtitan, or a script
/// that starts it. `path` may name a function: FILE.py:FUNCTION.
bool is_torchtitan_file(const std::string& path, std::string_view text);

/// InputError `FILE:LINE: …` where it can't be read.
TorchtitanFile load_torchtitan(const std::string& path, const ShellMachine& machine = {});

/// FILE.py of FILE.py:FUNCTION; other paths are themselves.
std::string file_of_path(const std::string& path);

}  // namespace pipesim

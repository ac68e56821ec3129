#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pipesim {

/// The whole file. InputError when it is missing, a directory, or can't be read.
std::string read_file(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, then renames it. A reader therefore sees the old file or the new
/// one, never half of one. A symbolic link stays, and its target is replaced. A device or a pipe is written
/// directly. InputError when the folder is missing or not writable; no temporary file is left then.
void write_file(const std::filesystem::path& path, std::string_view content);

/// InputError unless write_file(path, …) is expected to work. For checking before long work starts.
void require_writable(const std::filesystem::path& path);

}  // namespace pipesim

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pipesim {

/// The whole file. InputError when it is missing, a directory, or can't be read.
std::string read_file(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, then renames: a reader sees the old file or the new one, never
/// half of one. A link stays, and what it leads to is written; into a device or a pipe it writes at once.
/// InputError when the folder is missing or not writable; nothing is left behind then.
void write_file(const std::filesystem::path& path, std::string_view content);

/// InputError unless write_file(path, …) can be expected to work. For checking before long work starts.
void require_writable(const std::filesystem::path& path);

}  // namespace pipesim

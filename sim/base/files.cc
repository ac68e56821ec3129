#include "sim/base/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"

namespace pipesim {
namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// What a link leads to, over other links, which need not be there yet.
fs::path linked_from(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links)
    path = folder_of(path) / fs::read_symlink(path, error);
  return path;
}

// A device or a pipe, which keeps nothing that could be replaced.
bool is_stream(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw InputError(fmt::format("{}: is a directory, a file is needed", path.string()));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(fmt::format("{}: can't be read: {}", path.string(), std::strerror(errno)));
  const auto too_large = [&] {
    std::error_code unknown;
    const std::uintmax_t bytes = fs::file_size(path, unknown);
    return out_of_memory(unknown ? "reading " + path.string()
                                 : fmt::format("reading {} ({})", path.string(),
                                               pretty(Bytes(static_cast<std::int64_t>(bytes)))),
                         "The file must fit into memory");
  };
  return with_memory(too_large, [&] {
    std::ostringstream content;
    // What it could not keep would be left out without a word, unless it may throw.
    content.exceptions(std::ios::badbit | std::ios::failbit);
    try {
      content << in.rdbuf();
    } catch (const std::ios::failure&) {  // the file is empty, or can't be read
    }
    if (in.bad()) throw InputError(fmt::format("{}: can't be read: {}", path.string(), std::strerror(errno)));
    return std::move(content).str();
  });
}

void require_writable(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw InputError(fmt::format("{}: is a directory, a file is needed", path.string()));
  const auto refuse_unless_writable = [&](const fs::path& place) {
    if (::access(place.c_str(), W_OK) != 0) {
      throw InputError(
          fmt::format("{}: can't be written: {}: {}", path.string(), place.string(), std::strerror(errno)));
    }
  };
  const fs::path target = linked_from(path);
  if (is_stream(target)) return refuse_unless_writable(target);
  const fs::path folder = folder_of(target);
  if (!fs::is_directory(folder, error)) {
    throw InputError(
        fmt::format("{}: can't be written: there is no folder {}", path.string(), folder.string()));
  }
  refuse_unless_writable(folder);
}

void write_file(const fs::path& path, std::string_view content) {
  require_writable(path);
  const fs::path target = linked_from(path);
  const bool at_once = is_stream(target);
  const fs::path written =
      at_once ? target : folder_of(target) / fmt::format(".{}.{}", target.filename().string(), ::getpid());
  std::error_code error;
  const auto fail = [&](const std::string& reason) {
    if (!at_once) fs::remove(written, error);
    throw InputError(fmt::format("{}: can't be written: {}", path.string(), reason));
  };
  std::ofstream out(written, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) fail(std::strerror(errno));
  if (at_once) return;
  fs::rename(written, target, error);
  if (error) fail(error.message());
}

}  // namespace pipesim

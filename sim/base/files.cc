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
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, error)) {
    throw InputError(
        fmt::format("{}: can't be written: there is no folder {}", path.string(), folder.string()));
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw InputError(
        fmt::format("{}: can't be written: {}: {}", path.string(), folder.string(), std::strerror(errno)));
  }
}

void write_file(const fs::path& path, std::string_view content) {
  require_writable(path);
  const fs::path temporary = folder_of(path) / fmt::format(".{}.{}", path.filename().string(), ::getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  std::error_code error;
  if (!out) {
    const std::string reason = std::strerror(errno);
    fs::remove(temporary, error);
    throw InputError(fmt::format("{}: can't be written: {}", path.string(), reason));
  }
  fs::rename(temporary, path, error);
  if (error) {
    const std::string reason = error.message();
    fs::remove(temporary, error);
    throw InputError(fmt::format("{}: can't be written: {}", path.string(), reason));
  }
}

}  // namespace pipesim

#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/files.h"

namespace pipesim {

/// A folder of its own for a test, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(make()) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string path(std::string_view name = "") const { return (path_ / name).string(); }
  /// The path of a new file.
  [[nodiscard]] std::string file(std::string_view name, std::string_view content) const {
    write_file(path_ / name, content);
    return path(name);
  }

 private:
  static std::filesystem::path make() {
    std::string name = (std::filesystem::temp_directory_path() / "pipesim-test-XXXXXX").string();
    return mkdtemp(name.data());
  }

  std::filesystem::path path_;
};

}  // namespace pipesim

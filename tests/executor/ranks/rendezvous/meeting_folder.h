#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace pipesim {

/// An empty folder in which ranks may meet, and which goes away again.
class MeetingFolder {
 public:
  explicit MeetingFolder(const std::string& name)
      : path_(std::filesystem::path(testing::TempDir()) / (name + "." + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  ~MeetingFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string place() const { return "file:" + (path_ / "ranks").string(); }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace pipesim

#include "tests/layers/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace pipesim {
namespace fs = std::filesystem;

namespace {

SourceFile load(const fs::path& root, const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return {fs::relative(path, root).generic_string(), text.str()};
}

void sort_by_path(std::vector<SourceFile>& files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
}

}  // namespace

std::size_t SourceFile::lines() const {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::vector<SourceFile> source_tree(const std::vector<std::string_view>& endings) {
  const fs::path root = PIPESIM_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const char* folder : {"sim", "topologies", "models", "costmodel", "taskgraph", "search", "executor",
                             "tools", "python/module", "tests"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string name = entry.path().filename().string();
      const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
      if (entry.is_regular_file() && std::any_of(endings.begin(), endings.end(), ends))
        files.push_back(load(root, entry.path()));
    }
  }
  sort_by_path(files);
  return files;
}

std::vector<SourceFile> markdown_pages() {
  const fs::path root = PIPESIM_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (fs::recursive_directory_iterator entry(root), end; entry != end; ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name.starts_with('.') || name == "build" || name == "node_modules")) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && name.ends_with(".md")) {
      files.push_back(load(root, entry->path()));
    }
  }
  sort_by_path(files);
  return files;
}

}  // namespace pipesim

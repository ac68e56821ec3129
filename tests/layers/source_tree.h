#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A file of the repository.
struct SourceFile {
  std::string path;  ///< from the repository's root: "sim/base/units.h"
  std::string text;

  [[nodiscard]] std::string folder() const { return path.substr(0, path.find('/')); }
  [[nodiscard]] bool is_header() const { return path.ends_with(".h"); }
  [[nodiscard]] std::size_t lines() const;
};

/// All files of the top-level folders whose name ends in one of `endings`, by path.
std::vector<SourceFile> source_tree(const std::vector<std::string_view>& endings);

/// All pages in Markdown of the repository, by path: those of the root and of all its folders, without what
/// builds and installations of packages leave there.
std::vector<SourceFile> markdown_pages();

}  // namespace pipesim

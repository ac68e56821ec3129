#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/layers/source_tree.h"

namespace pipesim {

/// An #include line.
struct Include {
  std::string target;  ///< what stands between the quotes or brackets
  std::size_t line = 1;
  bool quoted = false;
  bool operator==(const Include&) const = default;
};

std::vector<Include> includes_of(const SourceFile& file);

/// What is wrong with the includes of a file, as `PATH:LINE: REASON`:
/// - project headers are named from the repository's root, and a folder sees only the layers below it;
/// - an external package is included only where it may stop; packages that no rule names are refused.
std::vector<std::string> broken_include_rules(const SourceFile& file);

/// "a.h -> b.h -> a.h" when headers include one another in a circle, else "".
std::string include_cycle(std::span<const SourceFile> files);

/// The same for folders whose files include files of other folders.
std::string room_cycle(std::span<const SourceFile> files);

}  // namespace pipesim

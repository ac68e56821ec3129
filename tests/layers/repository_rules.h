#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/layers/source_tree.h"

namespace pipesim {

/// What a file breaks of the rules that keep files readable, as `PATH: REASON`: a README has at most 40
/// lines; a test file checks something; text ends in a newline, without tabs, trailing spaces or carriage
/// returns.
std::vector<std::string> broken_file_rules(const SourceFile& file);

/// Folders with more than 30 files, as `FOLDER: REASON`.
std::vector<std::string> crowded_folders(std::span<const SourceFile> files);

}  // namespace pipesim

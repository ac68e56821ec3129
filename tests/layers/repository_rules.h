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

/// Comments of a C++ file, on lines of their own, that do not begin as a sentence, as `PATH:LINE: REASON`: no
/// line begins with "Of", "Or" or "But"; the first line of a comment does not begin with "As" or with two
/// words in lower case, unless it is a formula.
std::vector<std::string> comments_without_subject(const SourceFile& file);

/// Folders with more than 30 files, as `FOLDER: REASON`.
std::vector<std::string> crowded_folders(std::span<const SourceFile> files);

}  // namespace pipesim

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

/// Names of anonymous namespaces that two .cc files of a top-level folder (of tests: of tests of one) give to
/// something else each, as `NAME: is in PATH and in PATH`. Units of compilation are made of whole folders,
/// where these files would not compile together. Finds types, constants, and functions of the same name and
/// parameters; these must not be in a header, either, that is not one of tests.
std::vector<std::string> clashing_names(std::span<const SourceFile> files);

/// Folders with more than 30 files, as `FOLDER: REASON`.
std::vector<std::string> crowded_folders(std::span<const SourceFile> files);

}  // namespace pipesim

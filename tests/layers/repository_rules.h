#pragma once

#include <string>
#include <vector>

#include "tests/layers/source_tree.h"

namespace pipesim {

/// What a file breaks of the rules that keep files readable, as `PATH: REASON`: a source has at most 500
/// lines, a header at most 150, a README at most 40; a test file checks something; text ends in a newline,
/// without tabs, trailing spaces or carriage returns.
std::vector<std::string> broken_file_rules(const SourceFile& file);

}  // namespace pipesim

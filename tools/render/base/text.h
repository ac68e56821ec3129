#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The parts between separators, empty ones included.
std::vector<std::string> split(std::string_view text, std::string_view separator);

/// Breaks text at spaces so that lines, indented by `indent`, have at most `width` columns; keeps blank
/// lines.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace pipesim

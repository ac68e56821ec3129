#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipesim {

/// Breaks text at spaces so that lines, indented by `indent`, have at most `width` columns; keeps blank
/// lines.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace pipesim

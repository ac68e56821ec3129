#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The parts between separators, empty ones included.
std::vector<std::string> split(std::string_view text, std::string_view separator);

}  // namespace pipesim

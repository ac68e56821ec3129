#pragma once

#include <string>
#include <string_view>

namespace pipesim {

/// JSON of one line with a space behind every comma and colon: `{"a": [1, 2]}`. `compact` has none outside of
/// strings.
std::string spaced_json(std::string_view compact);

}  // namespace pipesim

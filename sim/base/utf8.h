#pragma once

#include <cstddef>
#include <string_view>

namespace pipesim {

/// Position of the first byte that is not valid UTF-8 (RFC 3629: shortest forms only, no surrogates);
/// std::string_view::npos when the whole text is valid.
std::size_t first_not_utf8(std::string_view text);

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <string_view>

namespace pipesim {

/// Where the first byte stands that is not UTF-8 (RFC 3629: shortest forms only, no surrogates);
/// std::string_view::npos when all are.
std::size_t first_not_utf8(std::string_view text);

}  // namespace pipesim

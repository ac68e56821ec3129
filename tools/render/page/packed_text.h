#pragma once

#include <string>
#include <string_view>

namespace pipesim {

/// The text compressed (DEFLATE, RFC 1951, without a header) and then in base64 (RFC 4648), as pages carry
/// data: browsers unpack it by themselves.
std::string packed_text(std::string_view text);

}  // namespace pipesim

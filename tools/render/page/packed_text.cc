#include "tools/render/page/packed_text.h"

#include <algorithm>
#include <boost/beast/zlib/deflate_stream.hpp>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

namespace packing = boost::beast::zlib;

std::string deflated(std::string_view text) {
  packing::deflate_stream stream;
  std::string made;
  std::string block(std::size_t{1} << 16, '\0');
  packing::z_params p;
  p.next_in = text.data();
  p.avail_in = text.size();
  for (;;) {
    p.next_out = block.data();
    p.avail_out = block.size();
    boost::beast::error_code error;
    stream.write(p, packing::Flush::finish, error);
    made.append(block, 0, block.size() - p.avail_out);
    if (error == packing::error::end_of_stream) return made;
    if (error && error != packing::error::need_buffers)
      throw InternalError("compressing a report failed: " + error.message());
  }
}

std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::size_t kGroup = 3;
  constexpr unsigned kBits = 6, kMask = 63, kByte = 8;
  std::string text;
  text.reserve((bytes.size() + 2) / kGroup * 4);
  for (std::size_t i = 0; i < bytes.size(); i += kGroup) {
    const std::size_t count = std::min(kGroup, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t k = 0; k < kGroup; ++k)
      group = group << kByte | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= count ? kDigits[group >> (kBits * (3 - k)) & kMask] : '=';
  }
  return text;
}

}  // namespace

std::string packed_text(std::string_view text) { return in_base64(deflated(text)); }

}  // namespace pipesim

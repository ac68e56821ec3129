#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/temporary_folder.h"
#include "tools/interop/traces/trace_text.h"

namespace pipesim {

inline std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

/// Unpacks what packed_text() packed, of this length and CRC-32. The reader of traces unpacks and checks it
/// as the body of a gzip file.
inline std::string unpacked_text(std::string_view packed, std::uint32_t length, std::uint32_t crc) {
  const TemporaryFolder folder;
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  file += from_base64(packed);
  for (const std::uint32_t number : {crc, length}) {
    for (int shift = 0; shift < 32; shift += 8) file += static_cast<char>(number >> shift & 0xff);
  }
  TraceText text(folder.file("packed.gz", file), Bytes(1'000'000'000));
  std::istream in(&text);
  in.exceptions(std::ios::badbit);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::uint32_t crc_of(std::string_view text) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

}  // namespace pipesim

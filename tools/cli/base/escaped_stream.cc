#include "tools/cli/base/escaped_stream.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

constexpr unsigned char kBeforeC1 = 0xC2, kFirstC1 = 0x80, kLastC1 = 0x9F, kDelete = 0x7F;

bool is_control(unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == kDelete; }

}  // namespace

EscapedStream::Buffer::int_type EscapedStream::Buffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize EscapedStream::Buffer::xsputn(const char* text, std::streamsize count) {
  std::streamsize passed = 0;  // up to here all is written, or waits
  const auto pass_to = [&](std::streamsize end) {
    to_.write(text + passed, end - passed);
    passed = end;
  };
  for (std::streamsize i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (waiting_) {
      waiting_ = false;
      if (byte >= kFirstC1 && byte <= kLastC1) {
        to_ << fmt::format("\\u{:04x}", byte);
        passed = i + 1;
        continue;
      }
      to_.put(static_cast<char>(kBeforeC1));
    }
    if (byte == kBeforeC1) {
      pass_to(i);
      waiting_ = true;
      passed = i + 1;
    } else if (is_control(byte)) {
      pass_to(i);
      to_ << fmt::format("\\u{:04x}", byte);
      passed = i + 1;
    }
  }
  pass_to(count);
  return to_ ? count : 0;
}

int EscapedStream::Buffer::sync() {
  to_.flush();
  return to_ ? 0 : -1;
}

void EscapedStream::Buffer::pass_waiting() {
  if (waiting_) to_.put(static_cast<char>(kBeforeC1));
  waiting_ = false;
}

}  // namespace pipesim

#include "tools/interop/traces/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>
#include <filesystem>
#include <optional>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

namespace zlib = boost::beast::zlib;

constexpr unsigned char kGzipFirst = 0x1f, kGzipSecond = 0x8b;

}  // namespace

// One member after the other: header, deflated data, CRC-32 and length of the text.
class TraceText::Inflater {
 public:
  explicit Inflater(TraceText& text) : text_(text) { read_header(); }

  // Text, or 0 bytes at the end of the last member.
  std::size_t inflate(char* to, std::size_t room) {
    while (!ended_) {
      if (text_.at_ == text_.until_ && text_.refill() == 0) fail("ends too early");
      zlib::z_params p;
      p.next_in = text_.read_.data() + text_.at_;
      p.avail_in = text_.until_ - text_.at_;
      p.next_out = to;
      p.avail_out = room;
      boost::beast::error_code error;
      stream_.write(p, zlib::Flush::none, error);
      text_.at_ = text_.until_ - p.avail_in;
      const std::size_t made = room - p.avail_out;
      crc_.process_bytes(to, made);
      length_ += static_cast<std::uint32_t>(made);
      if (error == zlib::error::end_of_stream) {
        end_member();
      } else if (error && error != zlib::error::need_buffers) {
        fail("is damaged");
      }
      if (made > 0) return made;
    }
    return 0;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw InputError(
        fmt::format("{}: the compressed data {}, allowed: a whole gzip file", text_.path_, what));
  }

  std::optional<unsigned char> next_byte() {
    if (text_.at_ == text_.until_ && text_.refill() == 0) return std::nullopt;
    return static_cast<unsigned char>(text_.read_[text_.at_++]);
  }
  unsigned char byte() {
    const auto next = next_byte();
    if (!next) fail("ends too early");
    return *next;
  }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= static_cast<std::uint32_t>(byte()) << shift;
    return value;
  }

  void read_header() {
    constexpr unsigned char kDeflate = 8;
    constexpr unsigned kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16;
    if (byte() != kGzipFirst || byte() != kGzipSecond || byte() != kDeflate) fail("is damaged");
    const unsigned flags = byte();
    for (int i = 0; i < 6; ++i) byte();  // time, level, system
    if ((flags & kExtra) != 0) {
      unsigned length = byte();
      length += 256U * byte();
      for (unsigned i = 0; i < length; ++i) byte();
    }
    for (const unsigned text : {kName, kComment}) {
      while ((flags & text) != 0 && byte() != 0) {
      }
    }
    if ((flags & kHeaderCrc) != 0) byte(), byte();
  }

  void end_member() {
    if (word() != crc_.checksum() || word() != length_) fail("is damaged");
    crc_.reset();
    length_ = 0;
    const auto more = next_byte();
    ended_ = !more;
    if (ended_) return;
    --text_.at_;
    read_header();
    stream_.reset();
  }

  TraceText& text_;
  zlib::inflate_stream stream_;
  boost::crc_32_type crc_;
  std::uint32_t length_ = 0;
  bool ended_ = false;
};

TraceText::TraceText(const std::string& path, Bytes most) : path_(path), most_(most) {
  if (std::filesystem::is_directory(path))
    throw InputError(fmt::format("{}: is a directory, allowed: a trace", path));
  file_.open(path, std::ios::binary);
  if (!file_) throw InputError(fmt::format("{}: can't be read", path));
  if (refill() >= 2 && static_cast<unsigned char>(read_[0]) == kGzipFirst &&
      static_cast<unsigned char>(read_[1]) == kGzipSecond)
    inflater_ = std::make_unique<Inflater>(*this);
}

TraceText::~TraceText() = default;

std::size_t TraceText::refill() {
  file_.read(read_.data(), static_cast<std::streamsize>(read_.size()));
  if (file_.bad()) throw InputError(fmt::format("{}: can't be read", path_));
  at_ = 0;
  until_ = static_cast<std::size_t>(file_.gcount());
  return until_;
}

TraceText::int_type TraceText::underflow() {
  std::size_t got = 0;
  if (inflater_) {
    got = inflater_->inflate(text_.data(), text_.size());
  } else if (at_ < until_ || refill() > 0) {
    got = until_ - at_;
    std::copy_n(read_.data() + at_, got, text_.data());
    at_ = until_;
  }
  seen_ += Bytes(static_cast<std::int64_t>(got));
  if (seen_ > most_)
    throw InputError(
        fmt::format("{}: has more than {} of text, allowed: at most that much", path_, pretty(most_)));
  setg(text_.data(), text_.data(), text_.data() + got);
  return got == 0 ? traits_type::eof() : traits_type::to_int_type(text_[0]);
}

}  // namespace pipesim

#include "executor/ranks/frames.h"

#include <fmt/format.h>

#include <cstring>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

void append_length(std::string& text, std::size_t length) {
  const std::uint64_t value = length;
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::uint64_t length_at(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace

std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    append_length(joined, text.size());
    joined += text;
  }
  return joined;
}

std::vector<std::string> split_texts(std::string_view joined, std::size_t count) {
  const std::size_t bytes = joined.size();
  std::vector<std::string> texts;
  while (texts.size() < count && joined.size() >= kLengthBytes) {
    const std::uint64_t length = length_at(joined);
    joined.remove_prefix(kLengthBytes);
    if (length > joined.size()) break;
    texts.emplace_back(joined.substr(0, length));
    joined.remove_prefix(length);
  }
  if (texts.size() != count || !joined.empty())
    throw DeviceError(fmt::format("a message of {} bytes does not hold {} texts", bytes, count));
  return texts;
}

std::string encoded(const Frame& frame) {
  std::string bytes;
  bytes.reserve(kLengthBytes + 1 + frame.body.size());
  append_length(bytes, frame.body.size());
  bytes += static_cast<char>(frame.kind);
  return bytes += frame.body;
}

std::optional<Frame> FrameReader::next(std::size_t most_bytes) {
  if (bytes_.size() < kLengthBytes + 1) return std::nullopt;
  const std::uint64_t length = length_at(bytes_);
  const auto kind = static_cast<std::uint8_t>(bytes_[kLengthBytes]);
  if (length > most_bytes || kind > static_cast<std::uint8_t>(Frame::Kind::Bye))
    throw DeviceError(fmt::format("found a message of {} bytes, at most {} are allowed", length, most_bytes));
  if (bytes_.size() - kLengthBytes - 1 < length) return std::nullopt;
  Frame frame{static_cast<Frame::Kind>(kind), bytes_.substr(kLengthBytes + 1, length)};
  bytes_.erase(0, kLengthBytes + 1 + length);
  return frame;
}

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// Several texts as one, each with its length before it, in the byte order of the machine.
std::string join_texts(const std::vector<std::string>& texts);

/// The texts of join_texts. DeviceError unless there are `count`, to the byte.
std::vector<std::string> split_texts(std::string_view joined, std::size_t count);

/// A message of a stream of bytes.
struct Frame {
  enum class Kind : std::uint8_t { Accepted, Refused, Met, Text, Result, Failure, Death, Bye };
  Kind kind = Kind::Bye;
  std::string body;

  bool operator==(const Frame&) const = default;
};

/// The frame as bytes: length of the body (8), kind (1), body.
std::string encoded(const Frame& frame);

/// Finds the frames in a stream whose bytes come in any portions.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole frame. DeviceError when the stream does not consist of frames, or a frame is longer than
  /// `most_bytes`.
  std::optional<Frame> next(std::size_t most_bytes);

 private:
  std::string bytes_;
};

}  // namespace pipesim

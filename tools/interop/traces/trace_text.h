#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <streambuf>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// The text of a file that may be compressed by gzip (RFC 1952), found by its first two bytes; several
/// members follow one another. Reading throws InputError: when compressed data are damaged or end too early,
/// and when there is more text than allowed. Neither the file nor its text is ever in memory as a whole.
class TraceText : public std::streambuf {
 public:
  /// InputError as read_file().
  TraceText(const std::string& path, Bytes most);
  ~TraceText() override;
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  [[nodiscard]] bool compressed() const { return inflater_ != nullptr; }

 protected:
  int_type underflow() override;

 private:
  class Inflater;
  std::size_t refill();  // of the file, into read_

  std::string path_;
  std::ifstream file_;
  Bytes most_, seen_;
  std::array<char, 1 << 16> read_{}, text_{};
  std::size_t at_ = 0, until_ = 0;  // of read_: what is not used yet
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace pipesim

#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace pipesim {

/// Writes text to another stream and shows control characters in it as text: a name from a file can't move a
/// terminal's cursor, clear its screen or set its title. Lines and tabs stay; of others (C0, DEL, and C1 in
/// UTF-8) ESC is written "\u001b", and U+009B "\u009b", as in JSON, which so stays JSON.
class EscapedStream final : public std::ostream {
 public:
  explicit EscapedStream(std::ostream& to) : std::ostream(nullptr), buffer_(to) { rdbuf(&buffer_); }
  /// The stream that takes everything as it is.
  [[nodiscard]] std::ostream& unescaped() const { return buffer_.to(); }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(std::ostream& to) : to_(to) {}
    ~Buffer() override { pass_waiting(); }
    [[nodiscard]] std::ostream& to() const { return to_; }

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    void pass_waiting();
    std::ostream& to_;
    bool waiting_ = false;  ///< for the byte behind 0xC2, which begins C1 in UTF-8, and other characters
  };
  Buffer buffer_;
};

}  // namespace pipesim

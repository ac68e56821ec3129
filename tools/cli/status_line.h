#pragma once

#include <chrono>
#include <ostream>
#include <string>

namespace pipesim {

/// Shows the progress of long work if `err` is standard error. On a terminal it is one line, which disappears
/// with the object; in a log it is a line every few seconds.
class StatusLine {
 public:
  explicit StatusLine(std::ostream& err);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Whether it is time for another text. True a few times a second on a terminal; never where nothing is
  /// written.
  [[nodiscard]] bool due() const;
  void show(const std::string& text);
  void clear();

 private:
  std::ostream& err_;
  bool shown_, terminal_;
  bool empty_ = true;
  std::chrono::milliseconds between_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim

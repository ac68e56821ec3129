#pragma once

#include <chrono>
#include <ostream>
#include <string>

namespace pipesim {

/// Says how far long work has come, if `err` is standard error: on a terminal as one line that is gone with
/// the object, in a log as a line every few seconds.
class StatusLine {
 public:
  explicit StatusLine(std::ostream& err);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Is it time for another text? True a few times a second on a terminal; never where none is written.
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

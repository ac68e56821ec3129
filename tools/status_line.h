#pragma once

#include <chrono>
#include <ostream>
#include <string>

namespace pipesim {

/// One line that says how far long work has come. It is written only if `err` is standard error and that is a
/// terminal, and is gone with the object.
class StatusLine {
 public:
  explicit StatusLine(std::ostream& err);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Is it time for another text? True a few times a second; never where none is written.
  [[nodiscard]] bool due() const;
  void show(const std::string& text);
  void clear();

 private:
  std::ostream& err_;
  bool shown_;
  bool empty_ = true;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim

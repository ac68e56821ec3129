#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include "tools/base/shown_progress.h"
#include "tools/cli/base/streams.h"

namespace pipesim {

/// Shows the progress of long work if `err` is standard error. On a terminal it is one line, which disappears
/// with the object; in a log it is a line every few seconds. A caller gets it every tenth of a second.
class StatusLine final : public ShownProgress {
 public:
  explicit StatusLine(std::ostream& err);
  explicit StatusLine(const Streams& streams);
  ~StatusLine() override;

  /// Whether it is time for another text. True a few times a second on a terminal; never where nothing is
  /// written.
  [[nodiscard]] bool due() const override;
  void show(const Progress& progress);
  void show(const std::string& text) override { show(Progress{text, {}, {}}); }
  void clear() override;

 private:
  std::ostream &err_, &terminal_codes_;
  Caller* caller_ = nullptr;
  bool shown_, terminal_;
  bool empty_ = true;
  std::chrono::milliseconds between_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim

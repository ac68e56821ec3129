#include "tools/cli/status_line.h"

#include <unistd.h>

#include <iostream>

namespace pipesim {
namespace {

constexpr std::chrono::milliseconds kBetweenTexts{250}, kBetweenLines{4000};

}  // namespace

StatusLine::StatusLine(std::ostream& err)
    : err_(err),
      shown_(&err == &std::cerr),
      terminal_(shown_ && ::isatty(STDERR_FILENO) == 1),
      between_(terminal_ ? kBetweenTexts : kBetweenLines),
      next_(std::chrono::steady_clock::now() + between_) {}

StatusLine::~StatusLine() { clear(); }

bool StatusLine::due() const { return shown_ && std::chrono::steady_clock::now() >= next_; }

void StatusLine::show(const std::string& text) {
  if (!shown_) return;
  if (terminal_) {
    err_ << "\r\033[K" << text << std::flush;
    empty_ = false;
  } else {
    if (!due()) return;
    err_ << "pipesim: " << text << std::endl;
  }
  next_ = std::chrono::steady_clock::now() + between_;
}

void StatusLine::clear() {
  if (!empty_) err_ << "\r\033[K" << std::flush;
  empty_ = true;
}

}  // namespace pipesim

#include "tools/status_line.h"

#include <unistd.h>

#include <iostream>

namespace pipesim {
namespace {

constexpr std::chrono::milliseconds kBetweenTexts{250};

}  // namespace

StatusLine::StatusLine(std::ostream& err)
    : err_(err),
      shown_(&err == &std::cerr && ::isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kBetweenTexts) {}

StatusLine::~StatusLine() { clear(); }

bool StatusLine::due() const { return shown_ && std::chrono::steady_clock::now() >= next_; }

void StatusLine::show(const std::string& text) {
  if (!shown_) return;
  err_ << "\r\033[K" << text << std::flush;
  empty_ = false;
  next_ = std::chrono::steady_clock::now() + kBetweenTexts;
}

void StatusLine::clear() {
  if (!empty_) err_ << "\r\033[K" << std::flush;
  empty_ = true;
}

}  // namespace pipesim

#include "tools/cli/base/status_line.h"

#include <unistd.h>

#include <iostream>

#include "tools/cli/base/escaped_stream.h"

namespace pipesim {
namespace {

// Where codes of terminals go, of which names that are shown have none.
std::ostream& unescaped(std::ostream& err) {
  const auto* const escaped = dynamic_cast<const EscapedStream*>(&err);
  return escaped != nullptr ? escaped->unescaped() : err;
}

constexpr std::chrono::milliseconds kBetweenTexts{250}, kBetweenLines{4000}, kForCaller{100};

}  // namespace

StatusLine::StatusLine(std::ostream& err)
    : err_(err),
      terminal_codes_(unescaped(err)),
      shown_(&terminal_codes_ == &std::cerr),
      terminal_(shown_ && ::isatty(STDERR_FILENO) == 1),
      between_(terminal_ ? kBetweenTexts : kBetweenLines),
      next_(std::chrono::steady_clock::now() + between_) {}

StatusLine::StatusLine(const Streams& streams) : StatusLine(streams.err) {
  if (streams.caller == nullptr) return;
  caller_ = streams.caller;
  terminal_ = false;
  shown_ = true;
  between_ = kForCaller;
  next_ = std::chrono::steady_clock::now() + between_;
}

StatusLine::~StatusLine() { clear(); }

bool StatusLine::due() const { return shown_ && std::chrono::steady_clock::now() >= next_; }

void StatusLine::show(const Progress& progress) {
  if (!shown_) return;
  if (terminal_) {
    terminal_codes_ << "\r\033[K";
    err_ << progress.text << std::flush;
    empty_ = false;
  } else {
    if (!due()) return;
    if (caller_ != nullptr) {
      caller_->take_progress(progress);
    } else {
      err_ << "pipesim: " << progress.text << std::endl;
    }
  }
  next_ = std::chrono::steady_clock::now() + between_;
}

void StatusLine::clear() {
  if (!empty_) terminal_codes_ << "\r\033[K" << std::flush;
  empty_ = true;
}

}  // namespace pipesim

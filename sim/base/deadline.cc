#include "sim/base/deadline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pipesim {
namespace {

thread_local const Deadline* kept_deadline = nullptr;

}  // namespace

Deadline::Deadline(double seconds, WallClock clock, StopRequested stop_requested)
    : clock_(std::move(clock)), stop_requested_(std::move(stop_requested)) {
  if (seconds < std::numeric_limits<double>::infinity()) end_ = now() + seconds;
}

double Deadline::now() const {
  if (clock_) return clock_();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Deadline Deadline::within(double seconds) const {
  Deadline sooner = *this;
  if (seconds < std::numeric_limits<double>::infinity()) sooner.end_ = std::min(end_, now() + seconds);
  return sooner;
}

Deadline Deadline::with_stop(StopRequested stop_requested) const {
  Deadline same = *this;
  same.stop_requested_ = std::move(stop_requested);
  return same;
}

double Deadline::left() const { return limited() ? std::max(0.0, end_ - now()) : end_; }

bool Deadline::passed() const {
  return (stop_requested_ && stop_requested_()) || (limited() && now() >= end_);
}

KeepTo::KeepTo(const Deadline* deadline) : before_(std::exchange(kept_deadline, deadline)) {}
KeepTo::~KeepTo() { kept_deadline = before_; }

const Deadline* deadline_kept() { return kept_deadline; }

bool is_late() { return kept_deadline != nullptr && kept_deadline->passed(); }

void stop_if_late() {
  if (is_late()) throw OutOfTime();
}

}  // namespace pipesim

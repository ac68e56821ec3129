#include "tools/searching/search_time.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipesim {
namespace {

constexpr double kForBaselines = 0.5, kForLowerBound = 0.1;
constexpr double kLeastForReport = 0.1, kMostForReport = 0.3;
constexpr double kLateShare = 0.05, kLateSeconds = 0.3;

double limit_of(double seconds) { return seconds > 0 ? seconds : std::numeric_limits<double>::infinity(); }

}  // namespace

SearchTime::SearchTime(double seconds, Deadline::StopRequested stop_requested, Deadline::WallClock clock)
    : seconds_(limit_of(seconds)),
      all_(seconds_, clock, std::move(stop_requested)),
      late_((1 + kLateShare) * seconds_ + kLateSeconds, std::move(clock)),
      kept_(kLeastForReport * seconds_) {}

Deadline SearchTime::before_report(double share) const {
  return all_.within(limited() ? std::min(share * seconds_, std::max(0.0, all_.left() - kept_)) : seconds_);
}

Deadline SearchTime::baselines() const { return before_report(kForBaselines); }
Deadline SearchTime::lower_bound() const { return before_report(kForLowerBound); }
Deadline SearchTime::search() const { return before_report(1); }

void SearchTime::keep_for_report(double seconds) {
  if (limited()) kept_ = std::clamp(seconds, kLeastForReport * seconds_, kMostForReport * seconds_);
}

Deadline SearchTime::report() const { return late_; }

TryBudget SearchTime::shortened(TryBudget budget) const {
  constexpr double kLeast = 0.2;
  if (limited()) budget.seconds = std::min(budget.seconds, std::max(kLeast, all_.left()));
  return budget;
}

}  // namespace pipesim

#include "tools/analysis/searching/search_time.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipesim {
namespace {

constexpr double kForReport = 0.1, kLateShare = 0.05, kLateSeconds = 0.3;

double limit_of(double seconds) { return seconds > 0 ? seconds : std::numeric_limits<double>::infinity(); }

}  // namespace

SearchTime::SearchTime(double seconds, Deadline::WallClock clock)
    : seconds_(limit_of(seconds)),
      all_(seconds_, clock),
      late_((1 + kLateShare) * seconds_ + kLateSeconds, std::move(clock)) {}

Deadline SearchTime::search() const {
  return limited() ? all_.within(std::max(0.0, all_.left() - kForReport * seconds_)) : all_;
}

Deadline SearchTime::report() const { return late_; }

TryBudget SearchTime::shortened(TryBudget budget) const {
  constexpr double kLeast = 0.2;
  if (limited()) budget.seconds = std::min(budget.seconds, std::max(kLeast, all_.left()));
  return budget;
}

}  // namespace pipesim

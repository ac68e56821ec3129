#include "tools/base/search_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipesim {
namespace {

double seconds_left(const SearchProgress& p, const SearchBudget& budget) {
  double left = std::numeric_limits<double>::infinity();
  if (budget.seconds > 0) left = budget.seconds - p.seconds;
  if (budget.proposals > 0 && p.proposals > 0) {
    const auto rest = static_cast<double>(budget.proposals - p.proposals);
    left = std::min(left, p.seconds * rest / static_cast<double>(p.proposals));
  }
  return std::max(0.0, left);
}

// The two largest units: whoever waits for hours does not count seconds.
std::string units_of_time(double seconds) {
  const std::int64_t s = std::llround(seconds);
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (s < kMinute) return fmt::format("{} s", s);
  if (s < kHour) return fmt::format("{} min {} s", s / kMinute, s % kMinute);
  if (s < kDay) return fmt::format("{} h {} min", s / kHour, s % kHour / kMinute);
  return fmt::format("{} d {} h", s / kDay, s % kDay / kHour);
}

std::string best_so_far(Nanoseconds best, std::optional<Nanoseconds> lower_bound) {
  if (best == 0) return "none yet";
  const std::string time = pretty(to_seconds(best));
  if (!lower_bound || *lower_bound <= 0) return time;
  return fmt::format("{} ({:.2f} x the lower bound)", time,
                     static_cast<double>(best) / static_cast<double>(*lower_bound));
}

}  // namespace

std::string progress_text(const SearchProgress& p, const SearchBudget& budget,
                          std::optional<Nanoseconds> lower_bound) {
  std::string text = fmt::format("{} proposals, {:.0f}/s, best {}", p.proposals,
                                 static_cast<double>(p.proposals) / std::max(p.seconds, 1e-9),
                                 best_so_far(p.best, lower_bound));
  const double left = seconds_left(p, budget);
  if (std::isfinite(left)) text += fmt::format(", at most {} left", units_of_time(left));
  return text;
}

Progress progress_of(const SearchProgress& progress, const SearchBudget& budget,
                     std::optional<Nanoseconds> lower_bound) {
  Progress now{progress_text(progress, budget, lower_bound), {}, {}};
  const double left = seconds_left(progress, budget);
  if (std::isfinite(left) && progress.seconds > 0) now.share = progress.seconds / (progress.seconds + left);
  if (progress.best > 0) now.best_time_s = to_seconds(progress.best).value;
  return now;
}

}  // namespace pipesim

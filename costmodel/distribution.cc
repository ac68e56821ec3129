#include "costmodel/distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {

Distribution::Distribution(std::vector<double> seconds, std::int64_t dropped)
    : seconds_(std::move(seconds)), dropped_(dropped) {
  const auto usable = [](double s) { return std::isfinite(s) && s > 0; };
  if (seconds_.empty() || !std::all_of(seconds_.begin(), seconds_.end(), usable))
    throw InternalError("a distribution needs samples above zero");
  std::sort(seconds_.begin(), seconds_.end());
}

Seconds Distribution::quantile(double p) const {
  const double at = std::clamp(p, 0.0, 1.0) * static_cast<double>(seconds_.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, seconds_.size() - 1);
  const double t = at - static_cast<double>(below);
  return Seconds(seconds_[below] + t * (seconds_[above] - seconds_[below]));
}

Seconds Distribution::draw(Rng& rng) const { return Seconds(seconds_[rng.below(seconds_.size())]); }

double Distribution::noise() const { return (quantile(0.75) - quantile(0.25)).value / median().value; }

void Distribution::merge(const Distribution& other) {
  seconds_.insert(seconds_.end(), other.seconds_.begin(), other.seconds_.end());
  std::sort(seconds_.begin(), seconds_.end());
  dropped_ += other.dropped_;
}

}  // namespace pipesim

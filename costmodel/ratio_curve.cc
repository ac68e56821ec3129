#include "costmodel/ratio_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {

namespace {

// Sizes that differ by rounding alone are equal.
constexpr double same_size = 1e-9;

}  // namespace

std::string_view name_of(DurationSource source) {
  switch (source) {
    case DurationSource::Measured:
      return "measured";
    case DurationSource::Interpolated:
      return "interpolated";
    case DurationSource::Extrapolated:
      return "extrapolated";
    case DurationSource::Analytic:
      return "analytic";
  }
  throw InternalError("duration of unknown source");
}

RatioCurve::RatioCurve(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return std::pair(a.size, a.ratio) < std::pair(b.size, b.ratio);
  });
  double count = 0;
  for (const Point& p : points) {
    const Point log{std::log(p.size), std::log(p.ratio)};
    if (points_.empty() || log.size > points_.back().size + same_size) {
      points_.push_back(log);
      count = 1;
      continue;
    }
    count += 1;
    points_.back().ratio += (log.ratio - points_.back().ratio) / count;
  }
}

RatioCurve::Value RatioCurve::at(double size) const {
  if (points_.empty()) return {};
  const double x = std::log(size);
  const auto above = std::lower_bound(points_.begin(), points_.end(), x - same_size,
                                      [](const Point& p, double value) { return p.size < value; });
  if (above == points_.end()) return {std::exp(points_.back().ratio), DurationSource::Extrapolated};
  if (above->size <= x + same_size) return {std::exp(above->ratio), DurationSource::Measured};
  if (above == points_.begin()) return {std::exp(above->ratio), DurationSource::Extrapolated};
  const auto below = above - 1;
  const double t = (x - below->size) / (above->size - below->size);
  return {std::exp(below->ratio + t * (above->ratio - below->ratio)), DurationSource::Interpolated};
}

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// Where a duration comes from.
enum class DurationSource : std::uint8_t {
  Measured,      ///< this very key was measured
  Interpolated,  ///< between measured sizes of the same kind
  Extrapolated,  ///< beyond the measured sizes, or only one was measured
  Analytic       ///< nothing of the kind was measured
};
std::string_view name_of(DurationSource source);  ///< "measured", "interpolated", "extrapolated", "analytic"

struct Estimate {
  Seconds time;
  DurationSource source = DurationSource::Analytic;
};

/// Ratio of measured to analytic time of one kind of task, by size.
///
/// Between two sizes the logarithm of the ratio is linear in the logarithm of the size. So a measured time
/// that equals a power of the size times the analytic time is reproduced exactly. Beyond the measured sizes
/// the nearest ratio holds: there the analytic model says how time grows, and no estimate deviates from it
/// more than some measurement did. Without points the ratio is 1.
class RatioCurve {
 public:
  struct Point {
    double size = 0, ratio = 1;  ///< both above zero
  };
  struct Value {
    double ratio = 1;
    DurationSource source = DurationSource::Analytic;  ///< Measured at the size of a point
  };
  RatioCurve() = default;
  /// In any order. Points of equal size are replaced by their geometric mean.
  explicit RatioCurve(std::vector<Point> points);
  [[nodiscard]] Value at(double size) const;
  [[nodiscard]] bool empty() const { return points_.empty(); }

 private:
  std::vector<Point> points_;  // logarithms, ascending and distinct in size
};

}  // namespace pipesim

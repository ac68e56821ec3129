#pragma once

#include <cstddef>

namespace pipesim {

/// How chains cool down (simulated annealing: Kirkpatrick, Gelatt, Vecchi 1983): the chain on rung r begins
/// at the r-th of temperatures in equal ratios from `coldest` to `hottest`, and ends at `end`; so the
/// distance between rungs shrinks as they cool. Relative to the least cost: at temperature t, a proposal that
/// is worse by t of the cost is accepted with probability 1/e.
struct Cooling {
  double coldest = 0, hottest = 0, end = 0;
  /// heat: factor of what chains begin at, but not below `end`, nor above a tenth of the cost. done: share of
  /// the way, 0 to 1.
  [[nodiscard]] double temperature(double heat, std::size_t rung, std::size_t rungs, double done) const;
};

}  // namespace pipesim

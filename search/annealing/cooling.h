#pragma once

#include <cstddef>

namespace pipesim {

/// How chains cool down (simulated annealing: Kirkpatrick, Gelatt, Vecchi 1983). Initial temperatures are
/// spaced in equal ratios from `coldest` to `hottest`; the chain on rung r begins at the r-th of them. All
/// end at `end`, so the rungs approach each other. Temperatures are relative to the least cost: at
/// temperature t, a proposal that is worse by t times the cost is accepted with probability 1/e.
struct Cooling {
  double coldest = 0, hottest = 0, end = 0;
  /// `heat` multiplies the initial temperature, which stays between `end` and a tenth of the cost. `done`:
  /// how much of the cooling is done, 0 to 1.
  [[nodiscard]] double temperature(double heat, std::size_t rung, std::size_t rungs, double done) const;
};

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <vector>

namespace pipesim {

/// The median and quartiles of times, interpolated between neighbours. All are 0 without times.
struct Quantiles {
  std::size_t count = 0;
  double low = 0, median = 0, high = 0;
  bool operator==(const Quantiles&) const = default;
};
Quantiles quantiles_of(std::vector<double> values);

/// The mean of weighted values and their deviation from it. `effective`: so many equal weights would tell as
/// much.
struct WeightedMean {
  double mean = 0, deviation = 0, effective = 0;
};
/// The deviation is that of a sample (divided by less than the number of values); 0 for one value. At least
/// one value.
WeightedMean weighted_mean(const std::vector<double>& values, const std::vector<double>& weights);

}  // namespace pipesim

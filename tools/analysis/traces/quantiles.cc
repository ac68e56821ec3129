#include "tools/analysis/traces/quantiles.h"

#include <algorithm>
#include <cmath>

namespace pipesim {

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {values.size(), at(0.25), at(0.5), at(0.75)};
}

WeightedMean weighted_mean(const std::vector<double>& values, const std::vector<double>& weights) {
  double sum = 0, squares = 0, mean = 0, spread = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += weights[i];
    squares += weights[i] * weights[i];
    mean += weights[i] * values[i];
  }
  mean /= sum;
  for (std::size_t i = 0; i < values.size(); ++i) spread += weights[i] * std::pow(values[i] - mean, 2);
  const double free = sum - squares / sum;
  return {mean, free > 1e-12 * sum ? std::sqrt(spread / free) : 0, sum * sum / squares};
}

}  // namespace pipesim

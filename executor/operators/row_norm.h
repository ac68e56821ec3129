#pragma once

#include <cmath>

#include "executor/operators/device_code.h"

namespace pipesim {

/// 1/σ of values with that mean and that mean of their squares, as layer norm and RMS norm take it.
PIPESIM_DEVICE inline double inverse_deviation(double mean, double mean_square) {
  constexpr double epsilon = 1e-5;
  const double variance = mean_square - mean * mean;
  return 1 / std::sqrt((variance > 0 ? variance : 0) + epsilon);
}

}  // namespace pipesim

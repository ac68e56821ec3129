#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "executor/operators/device_code.h"
#include "executor/operators/rows.h"

namespace pipesim {

/// 1/σ of values with that mean and that mean of their squares, as layer norm and RMS norm take it.
PIPESIM_DEVICE inline double inverse_deviation(double mean, double mean_square) {
  constexpr double epsilon = 1e-5;
  const double variance = mean_square - mean * mean;
  return 1 / std::sqrt((variance > 0 ? variance : 0) + epsilon);
}

/// Rows of layer norm and RMS norm. Where the last dim falls into groups, each is a row of its own; a shard
/// has whole groups or a part of one.
struct NormRows : Rows {
  NormRows(const Operator& op, std::span<const Range> ranges) : Rows(op, ranges) {
    if (!op.attributes.contains("groups")) return;
    width /= integer_of(op, "groups");
    groups = columns > width ? columns / width : 1;
    columns /= groups;
    rows *= groups;
  }
  std::int64_t groups = 1;  ///< beside one another in this shard
  /// Where the weights of a row begin.
  [[nodiscard]] std::int64_t first_weight(std::int64_t row) const { return row % groups * columns; }
};

}  // namespace pipesim

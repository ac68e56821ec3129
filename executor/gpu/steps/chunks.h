#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/gpu/bodies/column_sums.h"

namespace pipesim::gpu {

constexpr std::int64_t rounded_up_quotient(std::int64_t n, std::int64_t divisor) {
  return (n + divisor - 1) / divisor;
}

/// Rows divided into chunks for sums over them by a team for each chunk and column.
inline RowChunks chunks_for_teams(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t busy = 1 << 10, shortest = 1 << 10;
  const std::int64_t wanted = busy / std::max<std::int64_t>(1, columns);
  return {rows, columns, std::max<std::int64_t>(1, std::min(wanted, rows / shortest))};
}

}  // namespace pipesim::gpu

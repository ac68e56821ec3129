#pragma once

#include <cstdint>
#include <span>

#include "models/operator.h"

namespace pipesim {

/// A product of rows × inner and inner × columns, `batch` times.
struct MatrixSize {
  std::int64_t batch = 1, rows = 1, columns = 1, inner = 1;
  bool operator==(const MatrixSize&) const = default;
};

/// The product that a pass of a shard computes. Forward Y = X·W is rows × columns over inner; the gradient of
/// the input dY·Wᵀ is rows × inner over columns; the gradient of the weight Xᵀ·dY is inner × columns over
/// rows.
MatrixSize matrix_size(const MatrixShape& shape, Pass pass, std::span<const Range> ranges);

/// Share of the rate of a large, aligned product that this shape reaches, in (0, 1].
///
/// A kernel computes the result in tiles; what a tile overhangs the matrix is wasted, a smaller tile wastes
/// less but reads each operand more often, and the first and last steps along the inner dimension don't
/// overlap. The best tile is taken, as a library's heuristic would. How many tiles keep all of a device busy
/// is not asked here: the kind's efficiency by kernel size says that.
double matrix_efficiency(const MatrixSize& size);

}  // namespace pipesim

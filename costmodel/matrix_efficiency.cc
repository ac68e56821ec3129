#include "costmodel/matrix_efficiency.h"

#include <algorithm>
#include <array>

namespace pipesim {

namespace {

struct Tile {
  std::int64_t rows, columns;
  double fill;  ///< inner steps lost at the beginning and end
  double rate;  ///< of the largest tile's
};

/// Tiles of GPU matrix libraries (CUTLASS's default set); the rate falls with the operands' reuse, 2/(1/r +
/// 1/c) of a tile's sides, tempered by caches. The last one is a kernel without matrix units, for shapes that
/// fill no tile: 1/16 is plain against matrix-unit rate on A100 (19.5 of 312 TFLOP/s) and H100 (67 of 989).
constexpr std::array<Tile, 6> tiles{{{128, 128, 32, 1.0},
                                     {128, 64, 32, 0.9},
                                     {64, 128, 32, 0.9},
                                     {64, 64, 32, 0.7},
                                     {32, 32, 32, 0.4},
                                     {1, 1, 0, 1.0 / 16}}};

std::int64_t product(const std::vector<FactorIndex>& factors, std::span<const Range> ranges) {
  std::int64_t result = 1;
  for (FactorIndex f : factors) result *= ranges[static_cast<std::size_t>(f)].length();
  return result;
}

/// Used part of a dimension that is computed in whole tiles.
double used_part(std::int64_t length, std::int64_t tile) {
  std::int64_t tiled = (length + tile - 1) / tile * tile;
  return static_cast<double>(length) / static_cast<double>(tiled);
}

}  // namespace

MatrixSize matrix_size(const MatrixShape& shape, Pass pass, std::span<const Range> ranges) {
  MatrixSize size{product(shape.batch, ranges), product(shape.rows, ranges) * shape.rows_times,
                  product(shape.columns, ranges) * shape.columns_times,
                  product(shape.inner, ranges) * shape.inner_times};
  if (pass == Pass::BackwardInput) std::swap(size.columns, size.inner);
  if (pass == Pass::BackwardWeight) std::swap(size.rows, size.inner);
  return size;
}

double matrix_efficiency(const MatrixSize& size) {
  double best = 0;
  auto inner = static_cast<double>(size.inner);
  for (const Tile& tile : tiles) {
    double used = used_part(size.rows, tile.rows) * used_part(size.columns, tile.columns);
    best = std::max(best, tile.rate * used * inner / (inner + tile.fill));
  }
  return best;
}

}  // namespace pipesim

#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"

namespace pipesim::gpu {

/// Rows divided into chunks for sums over them: enough chunks to keep a device busy, few enough to be added
/// up by one thread a column. A matrix without rows has one empty chunk.
struct RowChunks {
  std::int64_t rows = 0, columns = 0, chunks = 1;
  static constexpr RowChunks of(std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t busy = std::int64_t{1} << 17, shortest = 16, most = 512;
    const std::int64_t wanted = busy / std::max<std::int64_t>(1, columns);
    return {rows, columns, std::clamp<std::int64_t>(std::min(wanted, rows / shortest), 1, most)};
  }
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t begin(std::int64_t chunk) const {
    return chunk * rows / chunks;
  }
};

/// partial[chunk, column] = Σ over the chunk's rows of term(row, column), a float; an index for each of them.
template <class Term>
struct ChunkSums {
  Term term;
  RowChunks split;
  double* partial = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t chunk = i / split.columns, column = i % split.columns, end = split.begin(chunk + 1);
    double sum = 0;
    for (std::int64_t row = split.begin(chunk); row < end; ++row)
      sum += static_cast<double>(term(row, column));
    partial[i] = sum;
  }
};

/// sums[column] = Σ over chunks of partial[chunk, column]; an index for each column.
struct SumsOfChunks {
  const double* partial = nullptr;
  RowChunks split;
  Floats sums;
  PIPESIM_DEVICE void operator()(std::int64_t column) const {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < split.chunks; ++chunk)
      sum += partial[chunk * split.columns + column];
    sums.set(column, static_cast<float>(sum));
  }
};

/// A term: the element itself of a matrix without gaps.
struct ElementTerm {
  Floats matrix;
  std::int64_t columns = 0;
  PIPESIM_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    return matrix[row * columns + column];
  }
};

using ColumnSumBodies = BodyList<ChunkSums<ElementTerm>, SumsOfChunks>;

}  // namespace pipesim::gpu

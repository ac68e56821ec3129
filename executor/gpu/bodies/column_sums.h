#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"

namespace pipesim::gpu {

/// Rows divided into chunks for sums over them: enough chunks to keep a device busy, few enough to be added
/// up by one thread a column. A matrix without rows has one empty chunk.
struct RowChunks {
  std::int64_t rows = 0, columns = 0, chunks = 1;
  static constexpr RowChunks of(std::int64_t rows, std::int64_t columns) {
    return for_threads(rows, columns, columns, std::int64_t{1} << 17);
  }
  /// The chunks for bodies that take groups of columns.
  static constexpr RowChunks of_groups(std::int64_t rows, std::int64_t columns) {
    return for_threads(rows, columns, groups_of(columns), std::int64_t{1} << 16);
  }
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t begin(std::int64_t chunk) const {
    return chunk * rows / chunks;
  }

 private:
  static constexpr RowChunks for_threads(std::int64_t rows, std::int64_t columns, std::int64_t of_row,
                                         std::int64_t busy) {
    constexpr std::int64_t shortest = 16, most = 512;
    const std::int64_t wanted = busy / std::max<std::int64_t>(1, of_row);
    return {rows, columns, std::clamp<std::int64_t>(std::min(wanted, rows / shortest), 1, most)};
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

/// Σ over chunks of partial[chunk · apart]: several numbers are on their way at a time.
PIPESIM_DEVICE inline double sum_over_chunks(const double* partial, std::int64_t chunks, std::int64_t apart) {
  constexpr int at_once = 8;
  double sum = 0;
  std::int64_t chunk = 0;
  for (; chunk + at_once <= chunks; chunk += at_once) {
    double parts[at_once];
    for (int k = 0; k < at_once; ++k) parts[k] = partial[(chunk + k) * apart];
    for (const double part : parts) sum += part;
  }
  for (; chunk < chunks; ++chunk) sum += partial[chunk * apart];
  return sum;
}

/// sums[column] = Σ over chunks of partial[chunk, column]; an index for each column.
struct SumsOfChunks {
  const double* partial = nullptr;
  RowChunks split;
  Floats sums;
  PIPESIM_DEVICE void operator()(std::int64_t column) const {
    sums.set(column, static_cast<float>(sum_over_chunks(partial + column, split.chunks, split.columns)));
  }
};

/// Computes the same as ChunkSums over the elements of a matrix without gaps, by groups of columns.
struct MatrixChunkSums {
  Floats matrix;
  RowChunks split;
  double* partial = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    constexpr int rows_at_once = 4;
    const std::int64_t groups = groups_of(split.columns), chunk = i / groups, end = split.begin(chunk + 1);
    const GroupPlace at = group_at(i - chunk * groups, split.columns);
    double sums[FloatGroup::size] = {};
    const auto add = [&](const FloatGroup& group) {
      for (int k = 0; k < FloatGroup::size; ++k) sums[k] += static_cast<double>(group.values[k]);
    };
    std::int64_t row = split.begin(chunk);
    const auto of_row = [&](std::int64_t r) { return read_group(matrix, at.in_row(r * split.columns)); };
    for (; row + rows_at_once <= end; row += rows_at_once) {
      const FloatGroup a = of_row(row), b = of_row(row + 1), c = of_row(row + 2), d = of_row(row + 3);
      add(a), add(b), add(c), add(d);
    }
    for (; row < end; ++row) add(of_row(row));
    for (int k = 0; k < FloatGroup::size; ++k)
      if (k < at.count) partial[chunk * split.columns + at.first + k] = sums[k];
  }
};

using ColumnSumBodies = BodyList<MatrixChunkSums, SumsOfChunks>;

}  // namespace pipesim::gpu

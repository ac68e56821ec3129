#pragma once

#include <cstddef>

#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

/// sums[column] = Σ over rows of term(row, column), in float64 and always in the same order, in two passes
/// over scratch memory. ChunkSums<Term> must be listed in executor/gpu/bodies/all.h.
template <class Term>
void add_up_columns(Stream& stream, const Term& term, std::int64_t rows, std::int64_t columns,
                    const Floats& sums) {
  const RowChunks split = RowChunks::of(rows, columns);
  const std::int64_t partial_sums = split.chunks * columns;
  auto* partial =
      reinterpret_cast<double*>(stream.scratch(sizeof(double) * static_cast<std::size_t>(partial_sums)));
  run(stream, partial_sums, ChunkSums<Term>{term, split, partial});
  run(stream, columns, SumsOfChunks{partial, split, sums});
}

/// Adds up the columns of m[rows, columns], which has no gaps.
inline void add_up_columns(Stream& stream, const Floats& m, std::int64_t rows, std::int64_t columns,
                           const Floats& sums) {
  const RowChunks split = RowChunks::of_groups(rows, columns);
  auto* partial = reinterpret_cast<double*>(
      stream.scratch(sizeof(double) * static_cast<std::size_t>(split.chunks * columns)));
  run(stream, split.chunks * groups_of(columns), MatrixChunkSums{m, split, partial});
  run(stream, columns, SumsOfChunks{partial, split, sums});
}

}  // namespace pipesim::gpu

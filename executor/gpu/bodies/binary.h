#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/operators/strided.h"

namespace pipesim::gpu {

/// result[i] = x[i] + y[at(i)], or x[i] · y[at(i)].
struct CombineStretched {
  Floats x, y, result;
  Strided at;
  bool product = false;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const float a = x[i], b = y[at.at(i)];
    result.set(i, product ? a * b : a + b);
  }
};

/// What element `column` of a stretched operand gets from place `row` of those it is stretched over:
/// d, or d · x where x is present.
struct StretchedTerm {
  Floats d, x;
  Strided kept, stretched;  ///< of d and x: dims that the operand has, and those that it lacks
  PIPESIM_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = kept.at(column) + stretched.at(row);
    return x.present() ? d[i] * x[i] : d[i];
  }
};

/// As ChunkSums, by a team for each sum: for terms whose neighbours in memory are rows.
template <class Term>
struct TeamChunkSums {
  Term term;
  RowChunks split;
  double* partial = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const std::int64_t chunk = i / split.columns, column = i % split.columns, end = split.begin(chunk + 1);
    double sum = 0;
    for (std::int64_t row = split.begin(chunk) + team.rank(); row < end; row += team.size())
      sum += static_cast<double>(term(row, column));
    sum = team.sum(sum);
    if (team.rank() == 0) partial[i] = sum;
  }
};

using BinaryBodies = BodyList<CombineStretched, ChunkSums<StretchedTerm>, TeamChunkSums<StretchedTerm>>;

}  // namespace pipesim::gpu

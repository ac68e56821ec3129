#pragma once

#include <limits>

#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/strided.h"

namespace pipesim::gpu {

/// Where a sum or a largest value goes: in float64 as it is, or divided and rounded to a tensor's type, or
/// both.
struct ReducedTo {
  double* exact = nullptr;
  Floats rounded;
  double divisor = 1;
  PIPESIM_DEVICE void put(std::int64_t i, double value) const {
    if (exact != nullptr) exact[i] = value;
    if (rounded.present()) rounded.set(i, static_cast<float>(value / divisor));
  }
};

/// Returns the sum or the largest of some numbers, found by each thread and then by its team.
template <class Team, class Value>
PIPESIM_DEVICE double sum_over(Team& team, std::int64_t begin, std::int64_t end, Value value) {
  double sum = 0;
  for (std::int64_t i = begin + team.rank(); i < end; i += team.size()) sum += static_cast<double>(value(i));
  return team.sum(sum);
}
template <class Team, class Value>
PIPESIM_DEVICE double largest_over(Team& team, std::int64_t begin, std::int64_t end, Value value) {
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = begin + team.rank(); i < end; i += team.size()) {
    const auto next = static_cast<float>(value(i));
    if (next > most || next != next) most = next;
  }
  return static_cast<double>(team.max(most));
}

/// Reduces chunks of the terms of the result's elements; terms are the rows of `split`, and elements its
/// columns. The index is chunk · columns + column, also in `to`, which is scratch memory where there are
/// several chunks.
struct ReducePart {
  Floats x;
  Strided kept, reduced;  ///< see ReduceShape
  RowChunks split;
  bool largest;
  ReducedTo to;

 protected:
  template <class Team>
  PIPESIM_DEVICE void reduce(Team& team, std::int64_t i) const {
    const std::int64_t chunk = i / split.columns, at = kept.at(i - chunk * split.columns);
    const std::int64_t begin = split.begin(chunk), end = split.begin(chunk + 1);
    const auto term = [&](std::int64_t t) { return x[at + reduced.at(t)]; };
    const double value = largest ? largest_over(team, begin, end, term) : sum_over(team, begin, end, term);
    if (team.rank() == 0) to.put(i, value);
  }
};
struct ReduceByTeams : ReducePart {
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    reduce(team, i);
  }
};
struct ReduceByThreads : ReducePart {
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    OneThread alone;
    reduce(alone, i);
  }
};

/// Combines an element of the result from its chunks [chunks, columns].
struct CombinedChunks {
  const double* parts;
  RowChunks split;
  bool largest;
  ReducedTo to;

 protected:
  template <class Team>
  PIPESIM_DEVICE void combine(Team& team, std::int64_t i) const {
    const auto part = [&](std::int64_t p) { return parts[p * split.columns + i]; };
    const double value =
        largest ? largest_over(team, 0, split.chunks, part) : sum_over(team, 0, split.chunks, part);
    if (team.rank() == 0) to.put(i, value);
  }
};
struct CombineByTeams : CombinedChunks {
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    combine(team, i);
  }
};
struct CombineByThreads : CombinedChunks {
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    OneThread alone;
    combine(alone, i);
  }
};

/// Fills dx with its part of the result's gradient; all elements that equal a maximum get it.
struct ReduceGradient {
  Floats x, y, dy, dx;  ///< x and y of a maximum only
  Strided result_of;
  float share;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t from = result_of.at(i);
    dx.set(i, y.present() && x[i] != y[from] ? 0.0F : dy[from] * share);
  }
};

using ReduceBodies =
    BodyList<ReduceByTeams, ReduceByThreads, CombineByTeams, CombineByThreads, ReduceGradient>;

}  // namespace pipesim::gpu

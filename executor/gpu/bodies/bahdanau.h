#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"

namespace pipesim::gpu {

// pq[n, a], pk[n, s, a], val[n, s, d], v[a], ctx[n, d], alpha[n, s]; a row is one element of one sequence,
// [n, s].

/// tanh(pq + pk) of a row.
struct BahdanauUnits {
  Floats pq, pk;
  std::int64_t s = 0, a = 0;
  PIPESIM_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return std::tanh(pq[row / s * a + j] + pk[row * a + j]);
  }
};

/// The score of a row; a team each.
struct BahdanauScores {
  BahdanauUnits units;
  Floats v;
  double* scores = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t j = team.rank(); j < units.a; j += team.size())
      sum += static_cast<double>(v[j] * units(row, j));
    sum = team.sum(sum);
    if (team.rank() == 0) scores[row] = sum;
  }
};

/// The largest score of a sample, as float32: any number near it keeps exp() in its range.
struct LargestScores {
  const double* scores = nullptr;
  double* largest = nullptr;
  std::int64_t s = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t n) const {
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = team.rank(); i < s; i += team.size()) {
      const auto score = static_cast<float>(scores[n * s + i]);
      if (score > most || score != score) most = score;
    }
    most = team.max(most);
    if (team.rank() == 0) largest[n] = static_cast<double>(most);
  }
};

/// Σ exp(score − largest) of a sample.
struct SumsOfScores {
  const double *scores = nullptr, *largest = nullptr;
  double* sums = nullptr;
  std::int64_t s = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t n) const {
    double sum = 0;
    for (std::int64_t i = team.rank(); i < s; i += team.size())
      sum += std::exp(scores[n * s + i] - largest[n]);
    sum = team.sum(sum);
    if (team.rank() == 0) sums[n] = sum;
  }
};

/// α of a row, an index for each.
struct BahdanauShares {
  const double *scores = nullptr, *largest = nullptr, *sums = nullptr;
  Floats alpha;
  std::int64_t s = 0;
  PIPESIM_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t n = row / s;
    alpha.set(row, static_cast<float>(std::exp(scores[row] - largest[n]) / sums[n]));
  }
};

/// ctx[n, j] = Σ over s of α · val; an index for each element.
struct BahdanauContext {
  Floats alpha, val, ctx;
  std::int64_t s = 0, d = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t n = i / d, j = i % d;
    float sum = 0;
    for (std::int64_t row = n * s; row < (n + 1) * s; ++row) sum += alpha[row] * val[row * d + j];
    ctx.set(i, sum);
  }
};

using BahdanauBodies = BodyList<BahdanauScores, LargestScores, SumsOfScores, BahdanauShares, BahdanauContext>;

}  // namespace pipesim::gpu

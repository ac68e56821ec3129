#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/exponential_sum.h"
#include "executor/gpu/bodies/floats.h"

namespace pipesim::gpu {

/// A row's largest value and log Σ exp(x) of this shard, in one look at x; or, when the row is whole,
/// Σ exp(x − most) and y.
struct SoftmaxSums {
  Floats x, y;
  std::int64_t columns;
  double *most, *sums;
  bool finish;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t at = row * columns;
    ExponentialSum sum;
    for (std::int64_t j = team.rank(); j < columns; j += team.size()) sum.add(x[at + j]);
    sum = sum.over(team);
    if (team.rank() == 0) {
      most[row] = static_cast<double>(sum.most);
      sums[row] = finish ? sum.sum : sum.log();
    }
    if (!finish) return;
    const auto share = static_cast<float>(1 / sum.sum);
    for (std::int64_t j = team.rank(); j < columns; j += team.size())
      y.set(at + j, std::exp(x[at + j] - sum.most) * share);
  }
};

/// Of a row: Σ exp(x − most) from log Σ exp(x) and the largest value of all shards.
struct SoftmaxRescale {
  const double* most;
  double* sum;
  PIPESIM_DEVICE void operator()(std::int64_t row) const { sum[row] = std::exp(sum[row] - most[row]); }
};

/// y of a row, from the largest value and the sum of all shards.
struct SoftmaxValues {
  Floats x, y;
  std::int64_t columns;
  const double *most, *sum;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t at = row * columns;
    const auto largest = static_cast<float>(most[row]), share = static_cast<float>(1 / sum[row]);
    for (std::int64_t j = team.rank(); j < columns; j += team.size())
      y.set(at + j, std::exp(x[at + j] - largest) * share);
  }
};

/// Adds up a row's Σ dy·y, or finishes dx, or both when the row is whole.
struct SoftmaxGradient {
  Floats y, dy, dx;
  std::int64_t columns;
  double* sums;
  bool add_up, finish;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t at = row * columns;
    double sum = 0;
    if (add_up) {
      for (std::int64_t j = team.rank(); j < columns; j += team.size())
        sum += static_cast<double>(dy[at + j] * y[at + j]);
      sum = team.sum(sum);
      if (team.rank() == 0) sums[row] = sum;
    } else {
      sum = sums[row];
    }
    if (!finish) return;
    const auto average = static_cast<float>(sum);
    for (std::int64_t j = team.rank(); j < columns; j += team.size())
      dx.set(at + j, y[at + j] * (dy[at + j] - average));
  }
};

using SoftmaxBodies = BodyList<SoftmaxSums, SoftmaxRescale, SoftmaxValues, SoftmaxGradient>;

}  // namespace pipesim::gpu

#pragma once

#include <cmath>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/exponential_sum.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"

namespace pipesim::gpu {

/// y = exp(x − most) · share of a row, for a team.
template <class Team>
PIPESIM_DEVICE void put_shares(Team& team, const Floats& x, const Floats& y, const RowGroups& groups,
                               float most, float share) {
  for (std::int64_t g = team.rank(); g < groups.count(); g += team.size()) {
    FloatGroup group = read_group(x, groups.at(g));
    for (float& value : group.values) value = std::exp(value - most) * share;
    write_group(y, groups.at(g), group);
  }
}

/// Finds a row's largest value and log Σ exp(x) of this shard in one pass over x; or, when the row is whole,
/// Σ exp(x − most) and y.
struct SoftmaxSums {
  Floats x, y;
  std::int64_t columns;
  double *most, *sums;
  bool finish;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const RowGroups groups{row * columns, (row + 1) * columns};
    ExponentialSum sum;
    for (std::int64_t g = team.rank(); g < groups.count(); g += team.size())
      sum.add(read_group(x, groups.at(g)), groups.at(g).count);
    sum = sum.over(team);
    if (team.rank() == 0) {
      most[row] = static_cast<double>(sum.most);
      sums[row] = finish ? sum.sum : sum.log();
    }
    if (!finish) return;
    put_shares(team, x, y, groups, sum.most, static_cast<float>(1 / sum.sum));
  }
};

/// A row's Σ exp(x − most), from log Σ exp(x) and the largest value of all shards.
struct SoftmaxRescale {
  const double* most;
  double* sum;
  PIPESIM_DEVICE void operator()(std::int64_t row) const { sum[row] = std::exp(sum[row] - most[row]); }
};

/// Fills y of a row from the largest value and the sum of all shards.
struct SoftmaxValues {
  Floats x, y;
  std::int64_t columns;
  const double *most, *sum;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    put_shares(team, x, y, {row * columns, (row + 1) * columns}, static_cast<float>(most[row]),
               static_cast<float>(1 / sum[row]));
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
    const RowGroups groups{row * columns, (row + 1) * columns};
    double sum = 0;
    if (add_up) {
      for (std::int64_t g = team.rank(); g < groups.count(); g += team.size()) {
        const FloatGroup ds = read_group(dy, groups.at(g)), shares = read_group(y, groups.at(g));
        for (int k = 0; k < FloatGroup::size; ++k)
          sum += static_cast<double>(ds.values[k] * shares.values[k]);
      }
      sum = team.sum(sum);
      if (team.rank() == 0) sums[row] = sum;
    } else {
      sum = sums[row];
    }
    if (!finish) return;
    const auto average = static_cast<float>(sum);
    for (std::int64_t g = team.rank(); g < groups.count(); g += team.size()) {
      FloatGroup ds = read_group(dy, groups.at(g));
      const FloatGroup shares = read_group(y, groups.at(g));
      for (int k = 0; k < FloatGroup::size; ++k) ds.values[k] = shares.values[k] * (ds.values[k] - average);
      write_group(dx, groups.at(g), ds);
    }
  }
};

using SoftmaxBodies = BodyList<SoftmaxSums, SoftmaxRescale, SoftmaxValues, SoftmaxGradient>;

}  // namespace pipesim::gpu

#pragma once

#include <cstdint>

#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/gpu/bodies/row_norm.h"

namespace pipesim::gpu {

/// Σ dy·x̂ and Σ dy over a chunk of rows, by groups of columns, to `sums` [chunks, 2, columns]. Rows that lie
/// beside one another count as one here, of all their columns.
struct RowNormWeightChunks {
  RowNormRows rows;
  Floats x, dy;
  RowChunks split;
  double* sums;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    constexpr int rows_at_once = 2;
    const std::int64_t columns = split.columns, groups = groups_of(columns), chunk = i / groups;
    const std::int64_t end = split.begin(chunk + 1);
    const GroupPlace at = group_at(i - chunk * groups, columns);
    double along[FloatGroup::size] = {}, sum[FloatGroup::size] = {};
    std::int64_t beside[FloatGroup::size] = {};  // which of the rows beside one another a column is of
    for (int k = 0; k < FloatGroup::size && rows.groups > 1; ++k)
      beside[k] = k < at.count ? (at.first + k) / rows.columns : 0;
    const auto add = [&](std::int64_t row, const FloatGroup& value, const FloatGroup& d) {
      float mean = 0, inverse = 0;
      for (int k = 0; k < FloatGroup::size; ++k) {
        if (k == 0 || rows.groups > 1) {
          const std::int64_t own = row * rows.groups + beside[k];
          mean = rows.mean(own), inverse = rows.inverse(own);
        }
        along[k] += static_cast<double>(d.values[k] * (value.values[k] - mean) * inverse);
        sum[k] += static_cast<double>(d.values[k]);
      }
    };
    std::int64_t row = split.begin(chunk);
    const auto of_row = [&](const Floats& matrix, std::int64_t r) {
      return read_group(matrix, at.in_row(r * columns));
    };
    for (; row + rows_at_once <= end; row += rows_at_once) {
      const FloatGroup value = of_row(x, row), next_value = of_row(x, row + 1);
      const FloatGroup d = of_row(dy, row), next_d = of_row(dy, row + 1);
      add(row, value, d);
      add(row + 1, next_value, next_d);
    }
    for (; row < end; ++row) add(row, of_row(x, row), of_row(dy, row));
    for (int k = 0; k < FloatGroup::size; ++k) {
      if (k >= at.count) continue;
      sums[2 * chunk * columns + at.first + k] = along[k];
      sums[(2 * chunk + 1) * columns + at.first + k] = sum[k];
    }
  }
};

/// dγ and dβ of a column, where present, from what RowNormWeightChunks leaves.
struct RowNormWeights {
  const double* sums;
  RowChunks split;
  Floats dgamma, dbeta;

  PIPESIM_DEVICE void operator()(std::int64_t column) const {
    const auto add_up = [&](std::int64_t row) {
      const double* partial = sums + row * split.columns + column;
      return static_cast<float>(sum_over_chunks(partial, split.chunks, 2 * split.columns));
    };
    if (dgamma.present()) dgamma.set(column, add_up(0));
    if (dbeta.present()) dbeta.set(column, add_up(1));
  }
};

using RowNormWeightBodies = BodyList<RowNormWeightChunks, RowNormWeights>;

}  // namespace pipesim::gpu

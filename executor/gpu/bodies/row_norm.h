#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/row_norm.h"

namespace pipesim::gpu {

/// The bodies of layer norm and RMS norm share this: a row's two statistics, and its mean and 1/σ. RMS norm
/// has one statistic, and 1/σ.
struct RowNormRows {
  std::int64_t columns = 0;  ///< of this shard
  double width = 1;          ///< columns of all shards
  bool rms = false;
  double* sums = nullptr;   ///< [rows, numbers()]
  float* saved = nullptr;   ///< [rows, numbers()]
  std::int64_t groups = 1;  ///< rows beside one another, whose weights differ

  [[nodiscard]] PIPESIM_DEVICE std::int64_t numbers() const { return rms ? 1 : 2; }
  [[nodiscard]] PIPESIM_DEVICE float mean(std::int64_t row) const { return rms ? 0.0F : saved[2 * row]; }
  [[nodiscard]] PIPESIM_DEVICE float inverse(std::int64_t row) const {
    return saved[numbers() * (row + 1) - 1];
  }
  /// The place of a group of a row's columns in the weights.
  [[nodiscard]] PIPESIM_DEVICE GroupPlace weights_at(const GroupPlace& at, std::int64_t row) const {
    return groups == 1 ? at : at.in_row(row % groups * columns);
  }
  PIPESIM_DEVICE void store(std::int64_t row, double first, double second) const {
    if (!rms) sums[2 * row] = first;
    sums[numbers() * (row + 1) - 1] = second;
  }
  [[nodiscard]] PIPESIM_DEVICE double first(std::int64_t row) const { return rms ? 0.0 : sums[2 * row]; }
  [[nodiscard]] PIPESIM_DEVICE double second(std::int64_t row) const {
    return sums[numbers() * (row + 1) - 1];
  }
};

/// Returns gamma of a group of columns, or ones where it is not present.
PIPESIM_DEVICE inline FloatGroup row_slopes(const Floats& gamma, const GroupPlace& columns) {
  if (gamma.present()) return read_group(gamma, columns);
  FloatGroup ones;
  for (float& value : ones.values) value = 1;
  return ones;
}

/// Adds up a row's Σx and Σx², or finishes y = (x − mean) / σ · γ + β, or both when the row is whole.
struct NormaliseRow {
  RowNormRows rows;
  Floats x, gamma, beta, y;
  bool add_up, finish;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t at = row * rows.columns;
    double sum = 0, squares = 0;
    if (add_up) {
      for (std::int64_t g = team.rank(); g < groups_of(rows.columns); g += team.size()) {
        const FloatGroup group = read_group(x, group_at(g, rows.columns).in_row(at));
        for (const float element : group.values) {
          const auto value = static_cast<double>(element);
          sum += value;
          squares += value * value;
        }
      }
      if (!rows.rms) sum = team.sum(sum);
      squares = team.sum(squares);
      if (team.rank() == 0) rows.store(row, sum, squares);
    } else {
      sum = rows.first(row);
      squares = rows.second(row);
    }
    if (finish) normalise(team, row, rows.rms ? 0 : sum / rows.width, squares / rows.width);
  }

 private:
  template <class Team>
  PIPESIM_DEVICE void normalise(Team& team, std::int64_t row, double mean, double mean_square) const {
    const auto centre = static_cast<float>(mean);
    const auto inverse = static_cast<float>(inverse_deviation(mean, mean_square));
    if (team.rank() == 0) {
      if (!rows.rms) rows.saved[2 * row] = centre;
      rows.saved[rows.numbers() * (row + 1) - 1] = inverse;
    }
    for (std::int64_t g = team.rank(); g < groups_of(rows.columns); g += team.size()) {
      const GroupPlace own = group_at(g, rows.columns), at = own.in_row(row * rows.columns),
                       weights = rows.weights_at(own, row);
      FloatGroup group = read_group(x, at);
      const FloatGroup slopes = row_slopes(gamma, weights),
                       shifts = beta.present() ? read_group(beta, weights) : FloatGroup{};
      for (int k = 0; k < FloatGroup::size; ++k)
        group.values[k] = (group.values[k] - centre) * inverse * slopes.values[k] + shifts.values[k];
      write_group(y, at, group);
    }
  }
};

/// Adds up a row's Σg and Σg·x̂ with g = dy·γ, or finishes dx, or both when the row is whole.
struct NormalisedRowGradient {
  RowNormRows rows;
  Floats x, gamma, dy, dx;
  bool add_up, finish;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t at = row * rows.columns;
    const float mean = rows.mean(row), inverse = rows.inverse(row);
    double sum = 0, products = 0;
    if (add_up) {
      for (std::int64_t i = team.rank(); i < groups_of(rows.columns); i += team.size()) {
        const GroupPlace own = group_at(i, rows.columns);
        const FloatGroup values = read_group(x, own.in_row(at)), before = scaled(own, row);
        for (int k = 0; k < FloatGroup::size; ++k) {
          const float g = before.values[k];
          sum += static_cast<double>(g);
          products += static_cast<double>(g * (values.values[k] - mean));
        }
      }
      if (!rows.rms) sum = team.sum(sum);
      products = team.sum(products) * static_cast<double>(inverse);
      if (team.rank() == 0) rows.store(row, sum, products);
    } else {
      sum = rows.first(row);
      products = rows.second(row);
    }
    if (!finish) return;
    const auto average = static_cast<float>(rows.rms ? 0 : sum / rows.width);
    const auto along = static_cast<float>(static_cast<double>(inverse) * products / rows.width);
    for (std::int64_t i = team.rank(); i < groups_of(rows.columns); i += team.size()) {
      const GroupPlace own = group_at(i, rows.columns);
      const FloatGroup values = read_group(x, own.in_row(at));
      FloatGroup group = scaled(own, row);
      for (int k = 0; k < FloatGroup::size; ++k)
        group.values[k] = inverse * (group.values[k] - average - (values.values[k] - mean) * along);
      write_group(dx, own.in_row(at), group);
    }
  }

 private:
  /// Returns g of one group of a row's columns.
  [[nodiscard]] PIPESIM_DEVICE FloatGroup scaled(const GroupPlace& own, std::int64_t row) const {
    FloatGroup group = read_group(dy, own.in_row(row * rows.columns));
    const FloatGroup slopes = row_slopes(gamma, rows.weights_at(own, row));
    for (int k = 0; k < FloatGroup::size; ++k) group.values[k] *= slopes.values[k];
    return group;
  }
};

using RowNormBodies = BodyList<NormaliseRow, NormalisedRowGradient>;

}  // namespace pipesim::gpu

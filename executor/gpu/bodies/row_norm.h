#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/operators/row_norm.h"

namespace pipesim::gpu {

/// What bodies of layer norm and RMS norm share: a row's 2 statistics, and mean and 1/σ; for RMS norm 1 each.
struct RowNormRows {
  std::int64_t columns = 0;  ///< of this shard
  double width = 1;          ///< columns of all shards
  bool rms = false;
  double* sums = nullptr;  ///< [rows, numbers()]
  float* saved = nullptr;  ///< [rows, numbers()]

  [[nodiscard]] PIPESIM_DEVICE std::int64_t numbers() const { return rms ? 1 : 2; }
  [[nodiscard]] PIPESIM_DEVICE float mean(std::int64_t row) const { return rms ? 0.0F : saved[2 * row]; }
  [[nodiscard]] PIPESIM_DEVICE float inverse(std::int64_t row) const {
    return saved[numbers() * (row + 1) - 1];
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
      for (std::int64_t j = team.rank(); j < rows.columns; j += team.size()) {
        const auto value = static_cast<double>(x[at + j]);
        sum += value;
        squares += value * value;
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
    for (std::int64_t j = team.rank(); j < rows.columns; j += team.size()) {
      const std::int64_t at = row * rows.columns + j;
      const float normal = (x[at] - centre) * inverse * gamma[j];
      y.set(at, beta.present() ? normal + beta[j] : normal);
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
      for (std::int64_t j = team.rank(); j < rows.columns; j += team.size()) {
        const float g = dy[at + j] * gamma[j];
        sum += static_cast<double>(g);
        products += static_cast<double>(g * (x[at + j] - mean));
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
    for (std::int64_t j = team.rank(); j < rows.columns; j += team.size()) {
      const float g = dy[at + j] * gamma[j];
      dx.set(at + j, inverse * (g - average - (x[at + j] - mean) * along));
    }
  }
};

/// Σ dy·x̂ and Σ dy over a chunk of rows, index chunk · columns + column, to `sums` [chunks, 2, columns].
struct RowNormWeightChunks {
  RowNormRows rows;
  Floats x, dy;
  RowChunks split;
  double* sums;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t columns = rows.columns, chunk = i / columns, column = i - chunk * columns;
    const std::int64_t end = split.begin(chunk + 1);
    double along = 0, sum = 0;
    for (std::int64_t row = split.begin(chunk); row < end; ++row) {
      const float d = dy[row * columns + column];
      along += static_cast<double>(d * (x[row * columns + column] - rows.mean(row)) * rows.inverse(row));
      sum += static_cast<double>(d);
    }
    sums[2 * chunk * columns + column] = along;
    sums[(2 * chunk + 1) * columns + column] = sum;
  }
};

/// dγ and dβ of a column, where present, from what RowNormWeightChunks leaves.
struct RowNormWeights {
  const double* sums;
  RowChunks split;
  Floats dgamma, dbeta;

  PIPESIM_DEVICE void operator()(std::int64_t column) const {
    double along = 0, sum = 0;
    for (std::int64_t chunk = 0; chunk < split.chunks; ++chunk) {
      along += sums[2 * chunk * split.columns + column];
      sum += sums[(2 * chunk + 1) * split.columns + column];
    }
    if (dgamma.present()) dgamma.set(column, static_cast<float>(along));
    if (dbeta.present()) dbeta.set(column, static_cast<float>(sum));
  }
};

using RowNormBodies = BodyList<NormaliseRow, NormalisedRowGradient, RowNormWeightChunks, RowNormWeights>;

}  // namespace pipesim::gpu

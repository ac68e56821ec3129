#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"
#include "executor/operators/strided.h"

namespace pipesim::gpu {

/// result[i] = x[i] + y[at(i)], or x[i] · y[at(i)]; by groups.
struct CombineStretched {
  Floats x, y, result;
  Strided at;
  bool product = false;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace place = group_at(i, elements);
    const FloatGroup b = stretched(place);
    FloatGroup group = read_group(x, place);
    for (int k = 0; k < FloatGroup::size; ++k)
      group.values[k] = product ? group.values[k] * b.values[k] : group.values[k] + b.values[k];
    write_group(result, place, group);
  }

 private:
  [[nodiscard]] PIPESIM_DEVICE FloatGroup stretched(const GroupPlace& place) const {
    if (at.last_step() == 1) {
      const std::int64_t row = at.lengths[static_cast<std::size_t>(at.dims - 1)];
      if (place.first % row + place.count <= row) return read_group(y, {at.at(place.first), place.count});
    }
    FloatGroup group{};
    for (std::int64_t k = 0; k < FloatGroup::size; ++k)
      if (k < place.count) group.values[k] = y[at.at(place.first + k)];
    return group;
  }
};

/// The term that element `column` of a stretched operand gets from place `row` of the dims that it lacks: d,
/// or d · x where x is present.
struct StretchedTerm {
  Floats d, x;
  Strided kept, stretched;  ///< of d and x: dims that the operand has, and those that it lacks
  PIPESIM_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = kept.at(column) + stretched.at(row);
    return x.present() ? d[i] * x[i] : d[i];
  }
};

/// Computes the same as ChunkSums with a team for each sum, for terms whose rows are neighbours in memory.
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

/// Weights of rows of so many columns; 1 where there are none.
struct RowWeights {
  Floats weights;
  std::int64_t columns = 1;
  /// The weight of element k of a group.
  PIPESIM_DEVICE float of(const GroupPlace& place, int k) const {
    return weights.present() && k < place.count ? weights[(place.first + k) / columns] : 1;
  }
};

/// result = silu(x) · y · weight; by groups.
struct SwigluForward {
  Floats x, y, result;
  RowWeights weights;
  Activation gate = Activation::Silu;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace place = group_at(i, elements);
    const FloatGroup b = read_group(y, place);
    FloatGroup a = read_group(x, place);
    with_activation(gate, [&]<Activation f>() {
      for (int k = 0; k < FloatGroup::size; ++k)
        a.values[k] = activation_value<f>(a.values[k]) * b.values[k] * weights.of(place, k);
    });
    write_group(result, place, a);
  }
};

/// dx = d · weight · y · f'(x), dy = d · weight · f(x), each where it is present; by groups.
struct SwigluGradients {
  Floats d, x, y, dx, dy;
  RowWeights weights;
  Activation gate = Activation::Silu;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace place = group_at(i, elements);
    const FloatGroup gradient = read_group(d, place), b = read_group(y, place);
    FloatGroup a = read_group(x, place), of_b{};
    with_activation(gate, [&]<Activation f>() {
      for (int k = 0; k < FloatGroup::size; ++k) {
        const float value = a.values[k], of_product = gradient.values[k] * weights.of(place, k);
        of_b.values[k] = of_product * activation_value<f>(value);
        a.values[k] = of_product * b.values[k] * activation_slope_at<f>(value);
      }
    });
    if (dx.present()) write_group(dx, place, a);
    if (dy.present()) write_group(dy, place, of_b);
  }
};

/// The gradient of each row's weight: d · f(x) · y over the row; a team for each row.
struct SwigluWeightGradients {
  Floats d, x, y, to;
  std::int64_t columns = 1;
  Activation gate = Activation::Silu;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    double sum = 0;
    with_activation(gate, [&]<Activation f>() {
      for (std::int64_t i = row * columns + team.rank(); i < (row + 1) * columns; i += team.size())
        sum += static_cast<double>(d[i]) * static_cast<double>(activation_value<f>(x[i]) * y[i]);
    });
    sum = team.sum(sum);
    if (team.rank() == 0) to.set(row, static_cast<float>(sum));
  }
};

using BinaryBodies = BodyList<SwigluForward, SwigluGradients, SwigluWeightGradients, CombineStretched,
                              ChunkSums<StretchedTerm>, TeamChunkSums<StretchedTerm>>;

}  // namespace pipesim::gpu

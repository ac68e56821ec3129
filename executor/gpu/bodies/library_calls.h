#pragma once

#include <array>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// Completes a matrix product after its sums, element by element: d = sum (+ d) (+ bias). Where `before` is
/// present, it keeps this value, and d is its gelu. The sums are `batch` matrices [rows, columns] without
/// gaps.
struct FinishProduct {
  Floats sums, d, bias, before;
  std::int64_t rows = 0, columns = 0, d_row = 0, d_batch = 0;  // as MatrixProduct::Matrix
  bool accumulate = false;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t column = i % columns, row = i / columns % rows, matrix = i / (columns * rows);
    const std::int64_t at = matrix * d_batch + row * d_row + column;
    float value = sums[i];
    if (accumulate) value += d[at];
    if (bias.present()) value += bias[column];
    if (before.present()) {
      before.set(at, value);
      value = activation_value<Activation::Gelu>(value);
    }
    d.set(at, value);
  }
};

/// to[plane, i, j] = from[plane, i + first[0], j + first[1]], 0 outside of `from`.
struct CopyWindow {
  Floats from, to;
  std::array<std::int64_t, 2> from_size{}, to_size{}, first{};
  PIPESIM_DEVICE void operator()(std::int64_t at) const {
    const std::int64_t j = at % to_size[1] + first[1];
    const std::int64_t i = at / to_size[1] % to_size[0] + first[0];
    const std::int64_t plane = at / (to_size[0] * to_size[1]);
    const bool inside = i >= 0 && j >= 0 && i < from_size[0] && j < from_size[1];
    to.set(at, inside ? from[(plane * from_size[0] + i) * from_size[1] + j] : 0.0F);
  }
};

using LibraryCallBodies = BodyList<FinishProduct, CopyWindow>;

}  // namespace pipesim::gpu

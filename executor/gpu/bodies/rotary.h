#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/rotary.h"

namespace pipesim::gpu {

/// Turns elements i and i + d/2 of the rows of some samples and heads, part of all of them, at one position,
/// forwards or back. Index (part · positions + position) · d/2 + i: an angle is worth several rows.
struct Turn {
  static constexpr std::int64_t kRows = 8;  // of a part

  Floats x, y;
  RotaryShape shape;
  bool back;

  PIPESIM_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t half = shape.d / 2, outer = index / half, i = index - outer * half;
    const std::int64_t part = outer / shape.positions, position = outer - part * shape.positions;
    const RotaryAngle angle = rotary_angle(shape.order.position(shape.first_position + position), i, shape.d);
    const float cosine = angle.cosine, sine = back ? -angle.sine : angle.sine;
    const std::int64_t rows = shape.samples * shape.heads, begin = part * kRows;
    const std::int64_t end = kRows < rows - begin ? begin + kRows : rows;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t sample = row / shape.heads, head = row - sample * shape.heads;
      const std::int64_t at = ((sample * shape.positions + position) * shape.heads + head) * shape.d + i;
      const float first = x[at], second = x[at + half];
      y.set(at, first * cosine - second * sine);
      y.set(at + half, second * cosine + first * sine);
    }
  }
};

using RotaryBodies = BodyList<Turn>;

}  // namespace pipesim::gpu

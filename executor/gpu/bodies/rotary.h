#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/rotary.h"

namespace pipesim::gpu {

/// Turns elements i and i + n/2 of the n that are rotated, forwards or back, or copies one of the others, in
/// the rows of some samples and heads, part of all of them, at one position. Index (part · positions +
/// position) · columns + i: an angle is worth several rows.
struct Turn {
  static constexpr std::int64_t kRows = 8;  // of a part

  /// Pairs that are turned, and elements that are not.
  static PIPESIM_DEVICE std::int64_t columns(const RotaryShape& shape) { return shape.d - shape.turned / 2; }

  Floats x, y;
  RotaryShape shape;
  bool back;

  PIPESIM_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t half = shape.turned / 2, outer = index / columns(shape),
                       i = index - outer * columns(shape);
    const std::int64_t part = outer / shape.positions, position = outer - part * shape.positions;
    const bool turns = i < half;
    RotaryAngle angle{1, 0};
    if (turns) angle = rotary_angle(shape.order.position(shape.first_position + position), i, shape.turned);
    const float cosine = angle.cosine, sine = back ? -angle.sine : angle.sine;
    const std::int64_t rows = shape.samples * shape.heads, begin = part * kRows;
    const std::int64_t end = kRows < rows - begin ? begin + kRows : rows;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t sample = row / shape.heads, head = row - sample * shape.heads;
      const std::int64_t at = ((sample * shape.positions + position) * shape.heads + head) * shape.d + i;
      if (!turns) {
        y.set(at + half, x[at + half]);
        continue;
      }
      const float first = x[at], second = x[at + half];
      y.set(at, first * cosine - second * sine);
      y.set(at + half, second * cosine + first * sine);
    }
  }
};

using RotaryBodies = BodyList<Turn>;

}  // namespace pipesim::gpu

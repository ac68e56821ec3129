#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"
#include "executor/operators/device_code.h"

namespace pipesim {

/// A shard of a rotary embedding: x[samples, positions, heads, d], whose first `turned` elements of a row are
/// rotated and whose others pass as they are.
struct RotaryShape {
  RotaryShape(const Operator& op, std::span<const Range> ranges) : order(zigzag_of(op)) {
    const Box box = box_of(op.uses[0], op, ranges);
    samples = box[0].length();
    positions = box[1].length();
    first_position = box[1].begin;
    heads = volume(box, 2, box.dims() - 1);
    d = turned = box[box.dims() - 1].length();
    if (op.attributes.contains("width")) turned = integer_of(op, "width");
  }

  std::int64_t samples = 0, positions = 0, heads = 0, d = 0, turned = 0;
  std::int64_t first_position = 0;  ///< where these positions come in the whole sequence
  ZigzagOrder order;
};

struct RotaryAngle {
  float cosine, sine;
};

/// How far elements i and i + turned/2 of a row turn at a position: position · 10000^(−2i/turned).
PIPESIM_DEVICE inline RotaryAngle rotary_angle(std::int64_t position, std::int64_t i, std::int64_t turned) {
  constexpr double base = 10000;
  const double exponent = -2 * static_cast<double>(i) / static_cast<double>(turned);
  const double angle = static_cast<double>(position) * std::pow(base, exponent);
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}

}  // namespace pipesim

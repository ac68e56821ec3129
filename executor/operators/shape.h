#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A tensor along an axis beside a part of it, both of one shard: [outer, whole, inner] beside
/// [outer, length, inner]. `first`: where the part begins, in the tensor's own coordinates.
struct AxisPart {
  std::int64_t outer = 1, inner = 1, whole = 0, length = 0, first = 0;
};

/// Which part of the axis a tensor of concat or split has; the operator has the attribute "axis".
inline AxisPart axis_part(const Operator& op, std::span<const Range> ranges, std::size_t tensor,
                          std::size_t part) {
  const auto axis = static_cast<std::size_t>(integer_of(op, "axis"));
  const Box whole = box_of(op.uses[tensor], op, ranges), piece = box_of(op.uses[part], op, ranges);
  return {volume(whole, 0, axis), volume(whole, axis + 1, whole.dims()), whole[axis].length(),
          piece[axis].length(), piece[axis].begin - op.uses[part].dims[axis].offset - whole[axis].begin};
}

/// By dim, how many elements to step.
using Strides = std::array<std::int64_t, Box::max_dims>;

inline Strides row_major_strides(const Box& box) {
  Strides strides{};
  std::int64_t stride = 1;
  for (std::size_t i = box.dims(); i-- > 0;) {
    strides[i] = stride;
    stride *= box[i].length();
  }
  return strides;
}

/// For a transpose of x, use 0, to y, use 1, whose dim i is dim order[i] of x: the steps in x by dim of y.
inline Strides strides_of_transposed(const Operator& op, std::span<const Range> ranges) {
  const Strides own = row_major_strides(box_of(op.uses[0], op, ranges));
  const auto& order = list_of(op, "order");
  Strides strides{};
  for (std::size_t i = 0; i < order.size(); ++i) strides[i] = own[static_cast<std::size_t>(order[i])];
  return strides;
}

/// The inverse: the steps in y by dim of x.
inline Strides strides_of_original(const Operator& op, std::span<const Range> ranges) {
  const Strides own = row_major_strides(box_of(op.uses[1], op, ranges));
  const auto& order = list_of(op, "order");
  Strides strides{};
  for (std::size_t i = 0; i < order.size(); ++i) strides[static_cast<std::size_t>(order[i])] = own[i];
  return strides;
}

}  // namespace pipesim

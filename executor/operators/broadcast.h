#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A shard of an element-wise operator of two operands: x, use 0, as [rows, columns], the last dim apart,
/// beside use 1, which may be narrower.
struct Broadcast {
  Broadcast(const Operator& op, std::span<const Range> ranges) : full(box_of(op.uses[0], op, ranges)) {
    const Box narrow = box_of(op.uses[1], op, ranges);
    const std::size_t missing = full.dims() - narrow.dims();
    std::int64_t stride = 1;
    for (std::size_t i = narrow.dims(); i-- > 0;) {
      const bool stretched = op.uses[1].dims[i].kind == IndexExpr::Kind::Whole;
      strides[missing + i] = stretched ? 0 : stride;
      stride *= narrow[i].length();
    }
    elements = stride;
    columns = full.dims() == 0 ? 1 : full[full.dims() - 1].length();
    rows = columns == 0 ? 0 : full.elements() / columns;
    step = full.dims() == 0 ? 0 : strides[full.dims() - 1];
    plain = elements == full.elements();
  }

  /// Where row `row` of x begins in the operand.
  [[nodiscard]] std::int64_t start(std::int64_t row) const {
    std::int64_t at = 0;
    for (std::size_t i = std::max<std::size_t>(full.dims(), 1) - 1; i-- > 0;) {
      at += row % full[i].length() * strides[i];
      row /= full[i].length();
    }
    return at;
  }

  Box full;
  /// Elements of the operand per dim of x: 0 where the operand is stretched or has no dim.
  std::array<std::int64_t, Box::max_dims> strides{};
  std::int64_t elements = 1;  ///< of the operand
  std::int64_t rows = 1, columns = 1;
  std::int64_t step = 0;  ///< of `strides`, the last
  bool plain = true;      ///< nothing is stretched
};

}  // namespace pipesim

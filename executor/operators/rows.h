#pragma once

#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"

namespace pipesim {

/// A shard's piece of a tensor as rows along its last dim.
struct Rows {
  Rows(const Operator& op, std::span<const Range> ranges, std::size_t use = 0) {
    const Box box = box_of(op.uses[use], op, ranges);
    rows = volume(box, 0, box.dims() - 1);
    owned = box[box.dims() - 1];
    columns = owned.length();
    width = op.uses[use].dims.back().extent;
  }
  /// Whether no other shard has a part of these rows.
  [[nodiscard]] bool whole() const { return columns == width; }

  std::int64_t rows = 0, columns = 0;
  std::int64_t width = 0;  ///< of the unsplit row
  Range owned;             ///< columns of the unsplit row
};

}  // namespace pipesim

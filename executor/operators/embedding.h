#pragma once

#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"

namespace pipesim {

/// A shard of an embedding: indices […], its rows of the table w[rows, width], y[…, width].
struct EmbeddingShape {
  EmbeddingShape(const Operator& op, std::span<const Range> ranges)
      : indices(box_of(op.uses[0], op, ranges).elements()) {
    const Box table = box_of(op.uses[1], op, ranges);
    first_row = table[0].begin;
    rows = table[0].length();
    width = table[1].length();
  }

  std::int64_t indices = 0;
  std::int64_t first_row = 0, rows = 0;  ///< of the unsplit table
  std::int64_t width = 0;
};

}  // namespace pipesim

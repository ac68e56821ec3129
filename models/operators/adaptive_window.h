#pragma once

#include <cstdint>

#include "models/index_expr.h"

namespace pipesim {

/// The windows of an adaptive pool along a dimension: `out` of them, about equally long, cover its `extent`.
struct AdaptiveWindows {
  std::int64_t extent = 1, out = 1;

  /// The elements of result o.
  [[nodiscard]] Range window(std::int64_t o) const {
    return {o * extent / out, ((o + 1) * extent + out - 1) / out};
  }
  /// No window is longer.
  [[nodiscard]] std::int64_t longest() const { return extent % out == 0 ? extent / out : extent / out + 2; }
};

}  // namespace pipesim

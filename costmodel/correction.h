#pragma once

#include <cstdint>

#include "sim/base/units.h"

namespace pipesim {

/// What estimates from other sizes do not show: a task of a run takes factor · predicted + overhead. Caches
/// are cold, inputs are put together, memory is shared with neighbours. What was measured in a run has all
/// that in it and is not corrected.
struct Correction {
  double factor = 1;
  double overhead = 0;     ///< seconds, at least 0
  std::int64_t tasks = 0;  ///< that it was fitted to
  std::int64_t runs = 0;   ///< that these come from
  [[nodiscard]] Seconds operator()(Seconds predicted) const { return predicted * factor + Seconds(overhead); }
  bool operator==(const Correction&) const = default;
};

}  // namespace pipesim

#pragma once

#include <cstdint>

#include "sim/base/units.h"

namespace pipesim {

/// Corrects an estimate for the effects of a real run: a task takes factor · predicted + overhead. In a run
/// caches are cold, inputs are assembled, and memory is shared with neighbours. Durations measured in a run
/// contain all that already and are not corrected.
struct Correction {
  double factor = 1;
  double overhead = 0;     ///< seconds, at least 0
  std::int64_t tasks = 0;  ///< that it was fitted to
  std::int64_t runs = 0;   ///< that these come from
  [[nodiscard]] Seconds operator()(Seconds predicted) const { return predicted * factor + Seconds(overhead); }
  bool operator==(const Correction&) const = default;
};

}  // namespace pipesim

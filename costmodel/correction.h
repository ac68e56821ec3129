#pragma once

#include <cstdint>

#include "sim/base/units.h"

namespace pipesim {

/// What measurements of isolated kernels do not show: a task of a run takes factor · predicted + overhead.
/// Caches are cold, threads are woken, memory is shared with neighbours.
struct Correction {
  double factor = 1;
  double overhead = 0;     ///< seconds, at least 0
  std::int64_t tasks = 0;  ///< that it was fitted to
  std::int64_t runs = 0;   ///< that these come from
  [[nodiscard]] Seconds operator()(Seconds predicted) const { return predicted * factor + Seconds(overhead); }
  bool operator==(const Correction&) const = default;
};

}  // namespace pipesim

#pragma once

#include <cstdint>

#include "executor/operators/attributes.h"

namespace pipesim {

/// The divisor of the sum over rows: the number of rows, with and without a label, in that many unsplit
/// microbatches.
inline double counted_rows(const Operator& op, std::int64_t microbatches) {
  const TensorUse& labels = op.uses[1];
  return static_cast<double>(whole_volume(labels, 0, labels.dims.size()) * microbatches);
}

}  // namespace pipesim

#pragma once

#include <cstdint>

#include "executor/operators/attributes.h"

namespace pipesim {

/// The divisor of the sum over rows: the rows of that many unsplit microbatches, counted with and without a
/// label.
inline double counted_rows(const Operator& op, std::int64_t microbatches) {
  const TensorUse& labels = op.uses[1];
  return static_cast<double>(whole_volume(labels, 0, labels.dims.size()) * microbatches);
}

/// Whether forward saves the softmax, and backward does without the logits. An operator that keeps the
/// logarithm of the softmax is counted too.
inline bool keeps_softmax(const Operator& op) {
  return op.attributes.contains("keep_softmax") || op.attributes.contains("keep_log_softmax");
}

}  // namespace pipesim

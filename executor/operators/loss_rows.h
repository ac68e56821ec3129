#pragma once

#include <cmath>
#include <cstdint>

#include "executor/operators/device_code.h"

namespace pipesim {

// Cross-entropy of a row of logits x with a label: ln Σ exp(x) − x[label]. A row with a negative label adds
// nothing. Columns of a row may be on several shards.

PIPESIM_DEVICE constexpr bool has_label(std::int64_t label) { return label >= 0; }

/// Whether the label's column is one of the shard's `columns` columns from `first_column` on.
PIPESIM_DEVICE constexpr bool owns_label(std::int64_t label, std::int64_t first_column,
                                         std::int64_t columns) {
  return label >= first_column && label < first_column + columns;
}

/// ln Σ exp(x), from the largest logit and Σ exp(x − most).
PIPESIM_DEVICE inline double log_sum_of(double most, double sum) { return most + std::log(sum); }

PIPESIM_DEVICE inline double row_loss(std::int64_t label, double log_sum, double label_logit) {
  return has_label(label) ? log_sum - label_logit : 0;
}

/// The gradient of a logit other than the label's, which is less by `scale`. `scale`: see row_scale().
PIPESIM_DEVICE inline float logit_gradient(float logit, float log_sum, float scale) {
  return std::exp(logit - log_sum) * scale;
}

/// The factor of a row's gradients: `scale`, or 0 when the row has no label.
PIPESIM_DEVICE constexpr float row_scale(std::int64_t label, float scale) {
  return has_label(label) ? scale : 0.0F;
}

}  // namespace pipesim

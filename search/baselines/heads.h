#pragma once

#include "models/operator.h"

namespace pipesim {

// Operators that mix positions by heads, g groups of r heads each.

/// Whether the operator is attention with heads: over queries s and keys t.
bool is_multi_head(const Operator& op);
/// Whether the operator is a scan with heads: over all positions s, with states of its own for each head.
bool is_multi_head_scan(const Operator& op);

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "executor/cpu/kernels/kernel.h"
#include "executor/operators/attributes.h"

namespace pipesim::cpu {

// Parts of a call that CPU kernels read; for those of operators see executor/operators/attributes.h.

/// The box of a use, even if its piece is not present in this pass.
inline Box box_of(const ShardCall& call, std::size_t use) {
  return pipesim::box_of(call.op.uses[use], call.op, call.ranges);
}

inline std::span<float> floats_of(const Piece& piece) {
  return {piece.floats, static_cast<std::size_t>(piece.elements())};
}

/// The saved bytes from `offset` on as float32.
inline float* saved_floats(const ShardCall& call, std::size_t offset = 0) {
  return reinterpret_cast<float*>(call.saved.data() + offset);
}

/// Calls visit(i) for 0 ≤ i < n, in this order.
template <class Visit>
void for_each_term(std::int64_t n, SumOrder order, Visit visit) {
  if (order == SumOrder::Ascending) {
    for (std::int64_t i = 0; i < n; ++i) visit(i);
  } else {
    for (std::int64_t i = 0; i < n; ++i) visit(term_at(order, i, n));
  }
}

}  // namespace pipesim::cpu

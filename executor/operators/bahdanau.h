#pragma once

#include <cstdint>
#include <span>

#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A shard of the attention of one query over a sequence, α = softmax over s of v · tanh(pq + pk): pq[n, a],
/// pk[n, s, a], val[n, s, d], v[a], ctx[n, d] = Σ α·val (Bahdanau et al., arXiv:1409.0473, appendix A.1.2).
struct BahdanauSizes {
  BahdanauSizes(const Operator& op, std::span<const Range> ranges) {
    const Box keys = box_of(op.uses[1], op, ranges), values = box_of(op.uses[2], op, ranges);
    n = keys[0].length(), s = keys[1].length(), a = keys[2].length(), d = values[2].length();
  }
  std::int64_t n, s, a, d;
};

}  // namespace pipesim

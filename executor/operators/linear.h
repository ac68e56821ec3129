#pragma once

#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"

namespace pipesim {

/// A shard of "linear" as one product of matrices: y[batch, out] = x[batch, in] · w. Factors are contiguous
/// dims, so the leading ones together are the batch.
struct LinearSizes {
  LinearSizes(const Operator& op, std::span<const Range> ranges)
      : transposed(integer_of(op, "transpose_weight") != 0) {
    const Box x = box_of(op.uses[0], op, ranges), y = box_of(op.uses.back(), op, ranges);
    const std::size_t split = x.dims() - static_cast<std::size_t>(integer_of(op, "contract"));
    batch = volume(x, 0, split);
    in = volume(x, split, x.dims());
    out = volume(y, split, y.dims());
  }
  std::int64_t batch, in, out;
  bool transposed;  ///< the weight is [out, in]
};

/// A shard of "matmul": y[batch, m, n] = p[batch, m, k] · q[batch, k, n].
struct MatmulSizes {
  MatmulSizes(const Operator& op, std::span<const Range> ranges)
      : m(length_of(op, ranges, "m")),
        n(length_of(op, ranges, "n")),
        k(length_of(op, ranges, "k")),
        transposed(integer_of(op, "transpose_q") != 0) {
    const Box y = box_of(op.uses[2], op, ranges);
    batch = volume(y, 0, y.dims() - 2);
  }
  std::int64_t batch = 1, m, n, k;
  bool transposed;  ///< q is [batch, n, k]
};

}  // namespace pipesim

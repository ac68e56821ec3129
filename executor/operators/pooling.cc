#include "executor/operators/pooling.h"

#include "executor/operators/attributes.h"

namespace pipesim {

PoolingShape pooling_shape(const Operator& op, std::span<const Range> ranges) {
  const Box x = box_of(op.uses[0], op, ranges), y = box_of(op.uses[1], op, ranges);
  PoolingShape shape;
  shape.planes = volume(y, 0, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const IndexExpr& window = op.uses[0].dims[2 + i];
    shape.windows[i] = {.kernel = window.kernel,
                        .stride = window.stride,
                        .image = x[2 + i].length(),
                        .result = y[2 + i].length(),
                        .origin = y[2 + i].begin * window.stride - window.pad - x[2 + i].begin};
  }
  return shape;
}

bool takes_largest(const Operator& op) { return word_of(op, "mode") == "max"; }

std::int64_t bytes_of_tap(const Operator& op) {
  if (!takes_largest(op)) return 0;
  const bool fits_a_byte = op.uses[0].dims[2].kernel * op.uses[0].dims[3].kernel <= 256;
  return fits_a_byte ? 1 : 4;
}

}  // namespace pipesim

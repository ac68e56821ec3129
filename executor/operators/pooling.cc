#include "executor/operators/pooling.h"

#include "executor/operators/attributes.h"
#include "models/operators/adaptive_window.h"

namespace pipesim {

PoolingWindow pooling_window(const Operator& op, std::span<const Range> ranges, std::size_t dim) {
  const IndexExpr& window = op.uses[0].dims[dim];
  const Range x = index_range(window, op, ranges), y = index_range(op.uses[1].dims[dim], op, ranges);
  return {.kernel = window.kernel,
          .stride = window.stride,
          .image = x.length(),
          .result = y.length(),
          .origin = y.begin * window.stride - window.pad - x.begin};
}

PoolingShape pooling_shape(const Operator& op, std::span<const Range> ranges) {
  PoolingShape shape;
  const std::size_t dims = op.uses[1].dims.size();
  shape.planes = volume(box_of(op.uses[1], op, ranges), 0, 2);
  shape.windows[0].image = shape.windows[0].result = 1;
  for (std::size_t dim = 2; dim < dims; ++dim)
    shape.windows[dim + 2 - dims] = pooling_window(op, ranges, dim);
  shape.exclude_pad = excludes_pad(op);
  return shape;
}

bool takes_largest(const Operator& op) { return word_of(op, "mode") == "max"; }

bool excludes_pad(const Operator& op) { return op.attributes.contains("exclude_pad"); }

std::int64_t bytes_of_tap(const Operator& op) {
  if (!takes_largest(op)) return 0;
  std::int64_t taps = 1;
  for (std::size_t dim = 2; dim < op.uses[0].dims.size(); ++dim) {
    const IndexExpr &x = op.uses[0].dims[dim], &y = op.uses[1].dims[dim];
    taps *= op.kind == "adaptive_pool" ? AdaptiveWindows{x.extent, y.extent}.longest() : x.kernel;
  }
  return taps <= 256 ? 1 : 4;
}

}  // namespace pipesim

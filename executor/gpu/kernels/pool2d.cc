#include "executor/gpu/bodies/pool2d.h"

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// pool2d, and pool1d as one row. values: x[n, c, (h,) w], y.
class Pool2d : public Kernel {
 public:
  [[nodiscard]] std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return static_cast<std::size_t>(box_of(op.uses[1], op, ranges).elements() * bytes_of_tap(op));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const PlaneDivisors results(shape.planes, shape.windows[0].result, shape.windows[1].result);
    const std::int64_t n = shape.planes * shape.result();
    const Floats x = call.values[0].floats(), y = call.values[1].floats();
    if (takes_largest(call.op)) {
      run(call.stream, n, PoolLargest{x, y, largest_over(call), shape, results});
    } else {
      run(call.stream, n, PoolAverage{x, y, shape, results});
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const auto& [rows, columns] = shape.windows;
    const auto by_stride = [](const PoolingWindow& window) {
      return Divisor(window.stride, window.image - window.origin);
    };
    run(call.stream, shape.planes * shape.image(),
        PoolGradient{call.gradients[1].floats(),
                     dx.floats(),
                     largest_over(call),
                     shape,
                     PlaneDivisors(shape.planes, rows.image, columns.image),
                     {by_stride(rows), by_stride(columns)}});
  }

 private:
  static LargestTaps largest_over(const ShardCall& call) {
    if (!takes_largest(call.op)) return {};
    return {call.saved.data(), bytes_of_tap(call.op) == 1};
  }
};

}  // namespace

std::vector<KernelEntry> pool2d_kernels() {
  static const Pool2d pool2d;
  return {{"pool1d", &pool2d}, {"pool2d", &pool2d}};
}

}  // namespace pipesim::gpu

#include <algorithm>
#include <limits>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/pooling.h"

namespace pipesim::cpu {
namespace {

/// values: x[n, c, h, w], y.
class Pool2d : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return static_cast<std::size_t>(pipesim::box_of(op.uses[1], op, ranges).elements() * bytes_of_tap(op));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!takes_largest(call.op)) return average(call);
    if (bytes_of_tap(call.op) == 1) return largest<std::uint8_t>(call);
    largest<std::uint32_t>(call);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::fill_n(dx.floats, dx.elements(), 0.0F);
    if (!takes_largest(call.op)) return spread(call);
    if (bytes_of_tap(call.op) == 1) return send_to_largest<std::uint8_t>(call);
    send_to_largest<std::uint32_t>(call);
  }

 private:
  /// Calls visit(output index, plane's first input element, rows, columns) for every window.
  template <class Visit>
  static void for_each_window(const PoolingShape& shape, SumOrder order, Visit visit) {
    for (std::int64_t p = 0; p < shape.planes; ++p) {
      for_each_term(shape.result(), order, [&](std::int64_t i) {
        visit(p * shape.result() + i, p * shape.image(), shape.windows[0].taps(i / shape.windows[1].result),
              shape.windows[1].taps(i % shape.windows[1].result));
      });
    }
  }

  static void average(const ShardCall& call) {
    const Piece &x = call.values[0], &y = call.values[1];
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const std::int64_t width = shape.windows[1].image;
    const auto taps = static_cast<double>(shape.kernel());
    const SumOrder order = call.step.sums;
    for_each_window(
        shape, SumOrder::Ascending, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
          double sum = 0;
          for_each_term(rows.last - rows.first, order, [&](std::int64_t r) {
            const float* row = x.floats + plane + (rows.origin + rows.first + r) * width + columns.origin;
            for_each_term(columns.last - columns.first, order,
                          [&](std::int64_t c) { sum += static_cast<double>(row[columns.first + c]); });
          });
          y.floats[out] = static_cast<float>(sum / taps);
        });
  }

  template <class Tap>
  static void largest(const ShardCall& call) {
    const Piece &x = call.values[0], &y = call.values[1];
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const std::int64_t width = shape.windows[1].image, kernel = shape.windows[1].kernel;
    Tap* saved = reinterpret_cast<Tap*>(call.saved.data());
    for_each_window(shape, SumOrder::Ascending,
                    [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
                      std::int64_t best = -1;  // the first of equals in the window's order, as a tap
                      float most = -std::numeric_limits<float>::infinity();
                      for (std::int64_t r = rows.first; r < rows.last; ++r) {
                        const float* row = x.floats + plane + (rows.origin + r) * width + columns.origin;
                        for (std::int64_t c = columns.first; c < columns.last; ++c) {
                          if (best < 0 || row[c] > most) best = r * kernel + c, most = row[c];
                        }
                      }
                      y.floats[out] = most;
                      saved[out] = static_cast<Tap>(std::max<std::int64_t>(best, 0));
                    });
  }

  static void spread(const ShardCall& call) {
    const Piece &dx = call.gradients[0], &dy = call.gradients[1];
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const std::int64_t width = shape.windows[1].image;
    const float share = 1 / static_cast<float>(shape.kernel());
    const SumOrder order = call.step.sums;
    for_each_window(shape, order, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
      const float d = dy.floats[out] * share;
      for (std::int64_t r = rows.first; r < rows.last; ++r) {
        float* row = dx.floats + plane + (rows.origin + r) * width + columns.origin;
        for (std::int64_t c = columns.first; c < columns.last; ++c) row[c] += d;
      }
    });
  }

  template <class Tap>
  static void send_to_largest(const ShardCall& call) {
    const Piece &dx = call.gradients[0], &dy = call.gradients[1];
    const PoolingShape shape = pooling_shape(call.op, call.ranges);
    const std::int64_t width = shape.windows[1].image, kernel = shape.windows[1].kernel;
    const Tap* saved = reinterpret_cast<const Tap*>(call.saved.data());
    const SumOrder order = call.step.sums;
    for_each_window(shape, order, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
      if (rows.first == rows.last || columns.first == columns.last) return;  // a window of padding alone
      const std::int64_t r = saved[out] / kernel, c = saved[out] % kernel;
      dx.floats[plane + (rows.origin + r) * width + columns.origin + c] += dy.floats[out];
    });
  }
};

}  // namespace

std::vector<KernelEntry> pool2d_kernels() {
  static const Pool2d pool2d;
  return {{"pool2d", &pool2d}};
}

}  // namespace pipesim::cpu

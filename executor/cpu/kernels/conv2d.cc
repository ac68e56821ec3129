#include <algorithm>
#include <array>

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/convolution.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// m[outer, length, inner] with the second dim in another order.
std::vector<float> reordered(const float* m, std::int64_t outer, std::int64_t length, std::int64_t inner,
                             SumOrder order) {
  std::vector<float> copy(static_cast<std::size_t>(outer * length * inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < length; ++i) {
      const float* from = m + (o * length + term_at(order, i, length)) * inner;
      std::copy(from, from + inner, copy.data() + (o * length + i) * inner);
    }
  }
  return copy;
}

std::int64_t area(const std::array<std::int64_t, 2>& sides) { return sides[0] * sides[1]; }

/// values: x[n, c, h, w], w[o, i, rows, columns], bias[o] if any, y.
class Conv2d : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, pipesim::box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Convolution c = shape_of(call);
    const Piece& y = call.values.back();
    if (call.values[0].present()) {
      multiply_forward(call, c, y.floats);
    } else {
      std::fill_n(y.floats, y.elements(), 0.0F);  // all windows lie in the padding
    }
    if (has_bias(call) && call.values[bias_use].present()) add_bias(call, y);
    apply_fused(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Convolution c = shape_of(call);
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::vector<float> scratch, dy_copy, w_copy;
    const float *dy = gradient_before_fused(call, saved_floats(call), scratch), *w = call.values[1].floats;
    if (call.step.sums != SumOrder::Ascending) {
      dy = (dy_copy = reordered(dy, c.samples * c.groups, c.out, area(c.result), call.step.sums)).data();
      w = (w_copy = reordered(w, c.groups, c.out, c.in * area(c.kernel), call.step.sums)).data();
    }
    convolve_for_input(c, dy, w, dx.floats, call.op.name);
  }

  void backward_weight(const ShardCall& call) const override {
    const Convolution c = shape_of(call);
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    const Piece& dw = call.gradients[1];
    if (dw.present() && call.values[0].present()) {
      multiply_for_weight(call, c, dy, dw.floats);
    } else if (dw.present()) {
      std::fill_n(dw.floats, dw.elements(), 0.0F);
    }
    if (has_bias(call) && call.gradients[bias_use].present()) sum_for_bias(call, c, dy);
  }

 private:
  static constexpr std::size_t bias_use = 2;
  static bool has_bias(const ShardCall& call) { return integer_of(call.op, "bias") != 0; }

  static Convolution shape_of(const ShardCall& call) { return convolution_shape(call.op, call.ranges); }

  static void multiply_forward(const ShardCall& call, const Convolution& c, float* y) {
    const float *x = call.values[0].floats, *w = call.values[1].floats;
    std::vector<float> x_copy, w_copy;
    if (call.step.sums != SumOrder::Ascending) {
      x = (x_copy = reordered(x, c.samples * c.groups, c.in, area(c.image), call.step.sums)).data();
      w = (w_copy = reordered(w, c.groups * c.out, c.in, area(c.kernel), call.step.sums)).data();
    }
    convolve(c, x, w, y, call.op.name);
  }

  static void multiply_for_weight(const ShardCall& call, const Convolution& c, const float* dy, float* dw) {
    const float* x = call.values[0].floats;
    std::vector<float> x_copy, dy_copy;
    if (call.step.sums != SumOrder::Ascending) {
      x = (x_copy = reordered(x, 1, c.samples, c.groups * c.in * area(c.image), call.step.sums)).data();
      dy = (dy_copy = reordered(dy, 1, c.samples, c.groups * c.out * area(c.result), call.step.sums)).data();
    }
    convolve_for_weight(c, x, dy, dw, call.op.name);
  }

  static void add_bias(const ShardCall& call, const Piece& y) {
    const std::int64_t channels = y.box[1].length(), plane = volume(y.box, 2, 4);
    for (std::int64_t row = 0; row < y.box[0].length() * channels; ++row) {
      const float b = call.values[bias_use].floats[row % channels];
      for (std::int64_t i = row * plane; i < (row + 1) * plane; ++i) y.floats[i] += b;
    }
  }

  static void sum_for_bias(const ShardCall& call, const Convolution& c, const float* dy) {
    const Piece& db = call.gradients[bias_use];
    const std::int64_t channels = c.groups * c.out, plane = area(c.result);
    for (std::int64_t o = 0; o < channels; ++o) {
      double sum = 0;
      for_each_term(c.samples, call.step.sums, [&](std::int64_t n) {
        const float* row = dy + (n * channels + o) * plane;
        for_each_term(plane, call.step.sums, [&](std::int64_t i) { sum += static_cast<double>(row[i]); });
      });
      db.floats[o] = static_cast<float>(sum);
    }
  }
};

}  // namespace

std::vector<KernelEntry> conv2d_kernels() {
  static const Conv2d conv2d;
  return {{"conv2d", &conv2d}};
}

}  // namespace pipesim::cpu

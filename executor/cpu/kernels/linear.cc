#include "executor/operators/linear.h"

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// y[batch…, out…] = x[batch…, in…] · w + b. values: x, w, b if any, y. Factors are contiguous dims, so the
/// whole is one product of matrices.
class Linear : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, pipesim::box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const LinearSizes s(call.op, call.ranges);
    const Piece& y = call.values.back();
    multiply({s.batch, s.out, s.in, false, s.transposed, false, call.step.sums}, call.values[0].floats,
             call.values[1].floats, y.floats, call.op.name);
    if (has_bias(call) && call.values[bias_use].present()) {
      add_bias(y.floats, s, call.values[bias_use].floats);
    }
    apply_fused(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const LinearSizes s(call.op, call.ranges);
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    if (!call.gradients[0].present()) return;
    multiply({s.batch, s.in, s.out, false, !s.transposed, false, call.step.sums}, dy, call.values[1].floats,
             call.gradients[0].floats, call.op.name);
  }

  void backward_weight(const ShardCall& call) const override {
    const LinearSizes s(call.op, call.ranges);
    const SumOrder order = call.step.sums;
    std::vector<float> scratch;
    const float *dy = gradient_before_fused(call, saved_floats(call), scratch), *x = call.values[0].floats;
    const Piece& dw = call.gradients[1];
    if (dw.present() && s.transposed) {
      multiply({s.out, s.in, s.batch, true, false, false, order}, dy, x, dw.floats, call.op.name);
    } else if (dw.present()) {
      multiply({s.in, s.out, s.batch, true, false, false, order}, x, dy, dw.floats, call.op.name);
    }
    if (has_bias(call) && call.gradients[bias_use].present()) {
      column_sums(dy, s.batch, s.out, order, call.gradients[bias_use].floats);
    }
  }

 private:
  static constexpr std::size_t bias_use = 2;
  static bool has_bias(const ShardCall& call) { return integer_of(call.op, "bias") != 0; }

  static void add_bias(float* y, const LinearSizes& s, const float* bias) {
    for (std::int64_t i = 0; i < s.batch; ++i, y += s.out) {
      for (std::int64_t j = 0; j < s.out; ++j) y[j] += bias[j];
    }
  }
};

/// y[a…, m, n] = p[a…, m, k] · q[a…, k, n], or q[a…, n, k]. values: p, q, y.
class Matmul : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const MatmulSizes s(call.op, call.ranges);
    for (std::int64_t a = 0; a < s.batch; ++a) {
      multiply({s.m, s.n, s.k, false, s.transposed, false, call.step.sums},
               call.values[0].floats + a * s.m * s.k, call.values[1].floats + a * s.k * s.n,
               call.values[2].floats + a * s.m * s.n, call.op.name);
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const MatmulSizes s(call.op, call.ranges);
    const Piece &dp = call.gradients[0], &dq = call.gradients[1];
    for (std::int64_t a = 0; a < s.batch; ++a) {
      const float *p = call.values[0].floats + a * s.m * s.k, *q = call.values[1].floats + a * s.k * s.n;
      const float* dy = call.gradients[2].floats + a * s.m * s.n;
      if (dp.present()) {
        multiply({s.m, s.k, s.n, false, !s.transposed, false, call.step.sums}, dy, q,
                 dp.floats + a * s.m * s.k, call.op.name);
      }
      if (dq.present()) multiply_for_q(call, s, p, dy, dq.floats + a * s.k * s.n);
    }
  }

 private:
  static void multiply_for_q(const ShardCall& call, const MatmulSizes& s, const float* p, const float* dy,
                             float* dq) {
    const SumOrder order = call.step.sums;
    if (s.transposed) {
      multiply({s.n, s.k, s.m, true, false, false, order}, dy, p, dq, call.op.name);
    } else {
      multiply({s.k, s.n, s.m, true, false, false, order}, p, dy, dq, call.op.name);
    }
  }
};

}  // namespace

std::vector<KernelEntry> linear_kernels() {
  static const Linear linear;
  static const Matmul matmul;
  return {{"linear", &linear}, {"matmul", &matmul}};
}

}  // namespace pipesim::cpu

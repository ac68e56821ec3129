#include "executor/operators/linear.h"

#include <utility>

#include "executor/gpu/bodies/linear.h"
#include "executor/gpu/steps/activation.h"
#include "executor/gpu/steps/column_sums.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/gpu/steps/products.h"

namespace pipesim::gpu {
namespace {

/// y = f(x · w + b). values: x, w, b if any, y. See LinearSizes.
class Linear : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const LinearSizes s(call.op, call.ranges);
    const Floats y = call.values.back().floats(),
                 bias = has_bias(call) ? call.values[kBias].floats() : Floats{};
    MatrixProduct product{.rows = s.batch,
                          .columns = s.out,
                          .inner = s.in,
                          .a = dense(call.values[0].floats(), s.batch, s.in),
                          .b = weight(s, call.values[1].floats()),
                          .d = dense(y, s.batch, s.out)};
    const Activation activation = fused_activation(call.op);
    AddBiasAndActivate rest{y, bias, kept_before_fused(call), s.out, activation};
    if (bias.present() && bias.stored == y.stored && product.a.elements.stored == y.stored &&
        is_direct(product)) {
      product.bias = bias;
      product.epilogue = MatrixProduct::Epilogue::Bias;
      // In float32 the libraries' gelu need not be exact to 1e-4, and its product takes long enough.
      if (activation == Activation::Gelu && y.stored != Stored::Float32) {
        product.epilogue = MatrixProduct::Epilogue::BiasGelu;
        product.before = rest.before;
        rest.activation = Activation::None;
      } else if (activation != Activation::None) {  // the bias costs nothing beside the function
        product.epilogue = MatrixProduct::Epilogue::None;
      }
      if (product.epilogue != MatrixProduct::Epilogue::None) rest.bias = {};
    }
    multiply(call.stream, product);
    if (rest.bias.present() || rest.activation != Activation::None)
      run_in_groups(call.stream, s.batch * s.out, rest);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    const LinearSizes s(call.op, call.ranges);
    MatrixProduct::Matrix w = weight(s, call.values[1].floats());
    w.transposed = !w.transposed;
    multiply(call.stream, {.rows = s.batch,
                           .columns = s.in,
                           .inner = s.out,
                           .a = dense(gradient_before_fused(call), s.batch, s.out),
                           .b = w,
                           .d = dense(call.gradients[0].floats(), s.batch, s.in)});
  }

  void backward_weight(const ShardCall& call) const override {
    const LinearSizes s(call.op, call.ranges);
    const Piece& dw = call.gradients[1];
    const bool biased = has_bias(call) && call.gradients[kBias].present();
    if (!dw.present() && !biased) return;
    const Floats dy = gradient_before_fused(call);
    if (dw.present()) {
      MatrixProduct product{.rows = s.in,
                            .columns = s.out,
                            .inner = s.batch,
                            .a = dense(call.values[0].floats(), s.batch, s.in),
                            .b = dense(dy, s.batch, s.out)};
      if (s.transposed) {
        std::swap(product.rows, product.columns);
        std::swap(product.a, product.b);
      }
      product.a.transposed = true;
      product.d = dense(dw.floats(), product.rows, product.columns);
      multiply(call.stream, product);
    }
    if (biased) add_up_columns(call.stream, dy, s.batch, s.out, call.gradients[kBias].floats());
  }

 private:
  static constexpr std::size_t kBias = 2;
  static bool has_bias(const ShardCall& call) { return integer_of(call.op, "bias") != 0; }
  static MatrixProduct::Matrix weight(const LinearSizes& s, const Floats& w) {
    return s.transposed ? dense(w, s.out, s.in, true) : dense(w, s.in, s.out);
  }
};

/// y = p · q. values: p, q, y. See MatmulSizes.
class Matmul : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const MatmulSizes s(call.op, call.ranges);
    multiply(call.stream, {.rows = s.m,
                           .columns = s.n,
                           .inner = s.k,
                           .batch = s.batch,
                           .a = dense(call.values[0].floats(), s.m, s.k),
                           .b = right(s, call.values[1].floats()),
                           .d = dense(call.values[2].floats(), s.m, s.n)});
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const MatmulSizes s(call.op, call.ranges);
    const Piece &dp = call.gradients[0], &dq = call.gradients[1];
    const MatrixProduct::Matrix dy = dense(call.gradients[2].floats(), s.m, s.n);
    if (dp.present()) {
      MatrixProduct::Matrix q = right(s, call.values[1].floats());
      q.transposed = !q.transposed;
      multiply(call.stream, {.rows = s.m,
                             .columns = s.k,
                             .inner = s.n,
                             .batch = s.batch,
                             .a = dy,
                             .b = q,
                             .d = dense(dp.floats(), s.m, s.k)});
    }
    if (!dq.present()) return;
    MatrixProduct product{.rows = s.k,
                          .columns = s.n,
                          .inner = s.m,
                          .batch = s.batch,
                          .a = dense(call.values[0].floats(), s.m, s.k),
                          .b = dy};
    if (s.transposed) {
      std::swap(product.rows, product.columns);
      std::swap(product.a, product.b);
    }
    product.a.transposed = true;
    product.d = dense(dq.floats(), product.rows, product.columns);
    multiply(call.stream, product);
  }

 private:
  static MatrixProduct::Matrix right(const MatmulSizes& s, const Floats& q) {
    return s.transposed ? dense(q, s.n, s.k, true) : dense(q, s.k, s.n);
  }
};

}  // namespace

std::vector<KernelEntry> linear_kernels() {
  static const Linear linear;
  static const Matmul matmul;
  return {{"linear", &linear}, {"matmul", &matmul}};
}

}  // namespace pipesim::gpu

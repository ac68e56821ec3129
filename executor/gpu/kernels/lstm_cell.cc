#include "executor/operators/lstm_cell.h"

#include "executor/gpu/bodies/lstm_cell.h"
#include "executor/gpu/steps/column_sums.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/gpu/steps/products.h"

namespace pipesim::gpu {
namespace {

/// values: x, h, c, wx, wh, b, new h, new c, see LstmSizes.
class LstmCell : public Kernel {
 public:
  /// The four gates after their functions, [n, 4, h] in float32.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return 4 * sizeof(float) * static_cast<std::size_t>(box_of(op.uses[2], op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const LstmSizes s(call.op, call.ranges);
    const auto floats = [&](std::size_t use) { return call.values[use].floats(); };
    MatrixProduct product{.rows = s.n,
                          .columns = 4 * s.h,
                          .inner = s.in,
                          .a = dense(floats(0), s.n, s.in),
                          .b = dense(floats(3), s.in, 4 * s.h),
                          .d = dense(gates(call), s.n, 4 * s.h)};
    multiply(call.stream, product);
    product.inner = s.hidden;
    product.a = dense(floats(1), s.n, s.hidden);
    product.b = dense(floats(4), s.hidden, 4 * s.h);
    product.accumulate = true;
    multiply(call.stream, product);
    run(call.stream, s.n * s.h, LstmStep{gates(call), floats(5), floats(2), floats(6), floats(7), s.h});
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const LstmSizes s(call.op, call.ranges);
    const Piece &dx = call.gradients[0], &dh = call.gradients[1], &old_c = call.gradients[2];
    if (!dx.present() && !dh.present() && !old_c.present()) return;
    const Floats dz = gate_gradients(call, s, call.values[3].type, old_c.floats());
    const auto send = [&](const Piece& gradient, std::int64_t columns, const Piece& weight) {
      if (!gradient.present()) return;
      multiply(call.stream, {.rows = s.n,
                             .columns = columns,
                             .inner = 4 * s.h,
                             .a = dense(dz, s.n, 4 * s.h),
                             .b = dense(weight.floats(), columns, 4 * s.h, true),
                             .d = dense(gradient.floats(), s.n, columns)});
    };
    send(dx, s.in, call.values[3]);
    send(dh, s.hidden, call.values[4]);
  }

  void backward_weight(const ShardCall& call) const override {
    const LstmSizes s(call.op, call.ranges);
    const Piece &dwx = call.gradients[3], &dwh = call.gradients[4], &db = call.gradients[5];
    if (!dwx.present() && !dwh.present() && !db.present()) return;
    const Floats dz = gate_gradients(call, s, call.values[0].type, {});
    const auto send = [&](const Piece& gradient, std::int64_t rows, const Piece& input) {
      if (!gradient.present()) return;
      multiply(call.stream, {.rows = rows,
                             .columns = 4 * s.h,
                             .inner = s.n,
                             .a = dense(input.floats(), s.n, rows, true),
                             .b = dense(dz, s.n, 4 * s.h),
                             .d = dense(gradient.floats(), rows, 4 * s.h)});
    };
    send(dwx, s.in, call.values[0]);
    send(dwh, s.hidden, call.values[1]);
    if (db.present()) add_up_columns(call.stream, dz, s.n, 4 * s.h, db.floats());
  }

 private:
  static Floats gates(const ShardCall& call) { return {call.saved.data(), Stored::Float32}; }

  /// Gradients before the gates' functions, [n, 4, h], in the type that they are multiplied in; also of the
  /// old c where that is present.
  static Floats gate_gradients(const ShardCall& call, const LstmSizes& s, DataType type,
                               const Floats& d_old_c) {
    const auto bytes = static_cast<std::size_t>(4 * s.n * s.h * bytes_per_element(type));
    const Floats dz{call.stream.scratch(bytes), stored_as(type)};
    run(call.stream, s.n * s.h,
        LstmStepGradient{gates(call), call.values[2].floats(), call.values[7].floats(),
                         call.gradients[6].floats(), call.gradients[7].floats(), dz, d_old_c, s.h});
    return dz;
  }
};

}  // namespace

std::vector<KernelEntry> lstm_cell_kernels() {
  static const LstmCell lstm_cell;
  return {{"lstm_cell", &lstm_cell}};
}

}  // namespace pipesim::gpu

#include "executor/operators/lstm_cell.h"

#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// values: x, h, c, wx, wh, b, new h, new c, see LstmSizes.
class LstmCell : public Kernel {
 public:
  /// The four gates after their functions, [n, 4, h].
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return 4 * sizeof(float) * static_cast<std::size_t>(pipesim::box_of(op.uses[2], op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const LstmSizes s(call.op, call.ranges);
    const SumOrder order = call.step.sums;
    float* gates = saved_floats(call);
    multiply({s.n, 4 * s.h, s.in, false, false, false, order}, call.values[0].floats, call.values[3].floats,
             gates, call.op.name);
    multiply({s.n, 4 * s.h, s.hidden, false, false, true, order}, call.values[1].floats,
             call.values[4].floats, gates, call.op.name);
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t j = 0; j < s.h; ++j) step(call, s, n, j);
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const LstmSizes s(call.op, call.ranges);
    const SumOrder order = call.step.sums;
    const std::vector<float> dz = gate_gradients(call, s, call.gradients[2].floats);
    const auto send = [&](std::size_t input, std::int64_t columns, std::size_t weight) {
      if (!call.gradients[input].present()) return;
      multiply({s.n, columns, 4 * s.h, false, true, false, order}, dz.data(), call.values[weight].floats,
               call.gradients[input].floats, call.op.name);
    };
    send(0, s.in, 3);
    send(1, s.hidden, 4);
  }

  void backward_weight(const ShardCall& call) const override {
    const LstmSizes s(call.op, call.ranges);
    const SumOrder order = call.step.sums;
    const std::vector<float> dz = gate_gradients(call, s, nullptr);
    const auto send = [&](std::size_t weight, std::int64_t rows, std::size_t input) {
      if (!call.gradients[weight].present()) return;
      multiply({rows, 4 * s.h, s.n, true, false, false, order}, call.values[input].floats, dz.data(),
               call.gradients[weight].floats, call.op.name);
    };
    send(3, s.in, 0);
    send(4, s.hidden, 1);
    if (call.gradients[5].present()) column_sums(dz.data(), s.n, 4 * s.h, order, call.gradients[5].floats);
  }

 private:
  static void step(const ShardCall& call, const LstmSizes& s, std::int64_t n, std::int64_t j) {
    float* z = saved_floats(call) + n * 4 * s.h + j;
    const float* bias = call.values[5].floats + j;
    const LstmGates gates =
        opened({z[0] + bias[0], z[s.h] + bias[s.h], z[2 * s.h] + bias[2 * s.h], z[3 * s.h] + bias[3 * s.h]});
    z[0] = gates.i, z[s.h] = gates.f, z[2 * s.h] = gates.g, z[3 * s.h] = gates.o;
    const std::int64_t at = n * s.h + j;
    const LstmCellState state = lstm_state(gates, call.values[2].floats[at]);
    call.values[6].floats[at] = state.h;
    call.values[7].floats[at] = state.c;
  }

  /// Gradients before the gates' functions, [n, 4, h]; also of the old c if that is given.
  static std::vector<float> gate_gradients(const ShardCall& call, const LstmSizes& s, float* old_c) {
    const Piece &dh = call.gradients[6], &dc = call.gradients[7];
    std::vector<float> dz(static_cast<std::size_t>(4 * s.n * s.h));
    for (std::int64_t at = 0; at < s.n * s.h; ++at) {
      const std::int64_t first = at / s.h * 4 * s.h + at % s.h;
      const float* gates = saved_floats(call) + first;
      const LstmCellState d{dh.present() ? dh.floats[at] : 0.0F, dc.present() ? dc.floats[at] : 0.0F};
      const LstmGradients gradients = lstm_gradients({gates[0], gates[s.h], gates[2 * s.h], gates[3 * s.h]},
                                                     call.values[2].floats[at], call.values[7].floats[at], d);
      float* to = dz.data() + first;
      to[0] = gradients.z.i, to[s.h] = gradients.z.f, to[2 * s.h] = gradients.z.g,
      to[3 * s.h] = gradients.z.o;
      if (old_c != nullptr) old_c[at] = gradients.old_c;
    }
    return dz;
  }
};

}  // namespace

std::vector<KernelEntry> lstm_cell_kernels() {
  static const LstmCell lstm_cell;
  return {{"lstm_cell", &lstm_cell}};
}

}  // namespace pipesim::cpu

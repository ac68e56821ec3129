#include <cmath>

#include "executor/cpu/gemm.h"
#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

/// values: x[n, i], h[n, hidden], c[n, h], wx[i, 4, h], wh[hidden, 4, h], b[4, h], new h[n, h], new c[n, h].
/// Gates in the order i, f, g, o: c′ = f·c + i·g, h′ = o·tanh c′.
class LstmCell : public Kernel {
 public:
  /// The four gates after their functions, [n, 4, h].
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return 4 * sizeof(float) * static_cast<std::size_t>(pipesim::box_of(op.uses[2], op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Sizes s(call);
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
    const Sizes s(call);
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
    const Sizes s(call);
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
  struct Sizes {
    explicit Sizes(const ShardCall& call) {
      const Box x = box_of(call, 0), c = box_of(call, 2);
      n = x[0].length(), in = x[1].length(), hidden = box_of(call, 1)[1].length(), h = c[1].length();
    }
    std::int64_t n, in, hidden, h;  ///< hidden is whole, h this shard's part of it
  };

  static void step(const ShardCall& call, const Sizes& s, std::int64_t n, std::int64_t j) {
    float* z = saved_floats(call) + n * 4 * s.h + j;
    const float* bias = call.values[5].floats + j;
    const float i = z[0] = logistic(z[0] + bias[0]);
    const float f = z[s.h] = logistic(z[s.h] + bias[s.h]);
    const float g = z[2 * s.h] = std::tanh(z[2 * s.h] + bias[2 * s.h]);
    const float o = z[3 * s.h] = logistic(z[3 * s.h] + bias[3 * s.h]);
    const std::int64_t at = n * s.h + j;
    const float c = f * call.values[2].floats[at] + i * g;
    call.values[6].floats[at] = o * std::tanh(c);
    call.values[7].floats[at] = c;
  }

  /// Gradients before the gates' functions, [n, 4, h]; also of the old c if that is given.
  static std::vector<float> gate_gradients(const ShardCall& call, const Sizes& s, float* old_c) {
    const Piece &dh = call.gradients[6], &dc_out = call.gradients[7];
    std::vector<float> dz(static_cast<std::size_t>(4 * s.n * s.h));
    for (std::int64_t at = 0; at < s.n * s.h; ++at) {
      const std::int64_t first = at / s.h * 4 * s.h + at % s.h;
      const float* gates = saved_floats(call) + first;
      const float i = gates[0], f = gates[s.h], g = gates[2 * s.h], o = gates[3 * s.h];
      const float t = std::tanh(call.values[7].floats[at]);
      const float from_h = dh.present() ? dh.floats[at] : 0.0F;
      const float dc = from_h * o * (1 - t * t) + (dc_out.present() ? dc_out.floats[at] : 0.0F);
      float* to = dz.data() + first;
      to[0] = dc * g * i * (1 - i);
      to[s.h] = dc * call.values[2].floats[at] * f * (1 - f);
      to[2 * s.h] = dc * i * (1 - g * g);
      to[3 * s.h] = from_h * t * o * (1 - o);
      if (old_c != nullptr) old_c[at] = dc * f;
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

#include "executor/operators/bahdanau.h"

#include "executor/gpu/bodies/bahdanau.h"
#include "executor/gpu/bodies/bahdanau_gradients.h"
#include "executor/gpu/steps/column_sums.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/attributes.h"

namespace pipesim::gpu {
namespace {

/// values: pq, pk, val, v, ctx, see BahdanauSizes. Statistics: forward the scores [n, s], per sample the
/// largest and Σ exp; backward Σ α·dα per sample.
class BahdanauAttention : public Kernel {
 public:
  /// α, [n, s] in float32.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(volume(box_of(op.uses[1], op, ranges), 0, 2));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const BahdanauSizes z(call.op, call.ranges);
    const auto statistic = [&](std::size_t i) { return call.statistics[i].data(); };
    if (segment == 0) {
      run(call.stream, z.n * z.s, BahdanauScores{units(call, z), call.values[3].floats(), statistic(0)});
    } else if (segment == 1) {
      run(call.stream, z.n, LargestScores{statistic(0), statistic(1), z.s});
    } else if (segment == 2) {
      run(call.stream, z.n, SumsOfScores{statistic(0), statistic(1), statistic(2), z.s});
    } else {
      run(call.stream, z.n * z.s, BahdanauShares{statistic(0), statistic(1), statistic(2), alpha(call), z.s});
      run(call.stream, z.n * z.d,
          BahdanauContext{alpha(call), call.values[2].floats(), call.values[4].floats(), z.s, z.d});
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const BahdanauSizes z(call.op, call.ranges);
    const auto bytes = sizeof(double) * static_cast<std::size_t>(z.n * z.s);
    auto* rows = reinterpret_cast<double*>(call.stream.scratch(bytes));
    double* averages = call.statistics[0].data();
    const ShareGradients shares{alpha(call), call.values[2].floats(), call.gradients[4].floats(), rows, z.s,
                                z.d};
    if (segment == 0) {
      run(call.stream, z.n * z.s, shares);
      run(call.stream, z.n, SumsOfSamples{rows, averages, z.s});
      return;
    }
    const BahdanauUnits u = units(call, z);
    const Floats v = call.values[3].floats();
    const Piece &dq = call.gradients[0], &dv = call.gradients[3];
    run(call.stream, z.n * z.s,
        BahdanauRowGradients{shares, u, averages, v, call.gradients[2].floats(), call.gradients[1].floats(),
                             rows});
    if (dq.present()) run(call.stream, z.n * z.a, BahdanauQueryGradients{u, rows, v, dq.floats()});
    if (dv.present()) add_up_columns(call.stream, BahdanauWeightTerm{u, rows}, z.n * z.s, z.a, dv.floats());
  }

 private:
  static BahdanauUnits units(const ShardCall& call, const BahdanauSizes& z) {
    return {call.values[0].floats(), call.values[1].floats(), z.s, z.a};
  }
  static Floats alpha(const ShardCall& call) { return {call.saved.data(), Stored::Float32}; }
};

}  // namespace

std::vector<KernelEntry> bahdanau_kernels() {
  static const BahdanauAttention bahdanau_attention;
  return {{"bahdanau_attention", &bahdanau_attention}};
}

}  // namespace pipesim::gpu

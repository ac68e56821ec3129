#include "executor/gpu/bodies/row_norm.h"

#include "executor/gpu/bodies/row_norm_weights.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// Layer norm and RMS norm. Uses, statistics and saved bytes are those of cpu::RowNorm. Rows that no other
/// shard has a part of take one launch a pass.
class RowNorm : public Kernel {
 public:
  explicit RowNorm(bool rms) : rms_(rms) {}

  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return (rms_ ? 1 : 2) * sizeof(float) * static_cast<std::size_t>(NormRows(op, ranges).rows);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const NormRows r(call.op, call.ranges);
    if (r.whole() && segment > 0) return;
    const Floats beta = rms_ || !has_weights(call.op) ? Floats{} : call.values[2].floats();
    run(call.stream, r.rows,
        NormaliseRow{rows_of(call, r), call.values[0].floats(), gamma_of(call), beta,
                     call.values.back().floats(), segment == 0, r.whole() || segment > 0});
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const NormRows r(call.op, call.ranges);
    const Floats dx = call.gradients[0].floats();
    if (segment == 0) weight_gradients(call, r);
    const bool add_up = segment == 0, finish = dx.present() && r.whole() == add_up;
    if (add_up || finish) {
      run(call.stream, r.rows,
          NormalisedRowGradient{rows_of(call, r), call.values[0].floats(), gamma_of(call),
                                call.gradients.back().floats(), dx, add_up, finish});
    }
  }

 private:
  static bool has_weights(const Operator& op) { return op.uses.size() > 2; }
  /// Not present without weights.
  static Floats gamma_of(const ShardCall& call) {
    return has_weights(call.op) ? call.values[1].floats() : Floats{};
  }

  [[nodiscard]] RowNormRows rows_of(const ShardCall& call, const NormRows& r) const {
    return {r.columns,
            static_cast<double>(r.width),
            rms_,
            call.statistics[0].data(),
            reinterpret_cast<float*>(call.saved.data()),
            r.groups};
  }

  void weight_gradients(const ShardCall& call, const NormRows& r) const {
    if (!has_weights(call.op)) return;
    const Floats dgamma = call.gradients[1].floats();
    const Floats dbeta = rms_ ? Floats{} : call.gradients[2].floats();
    if (r.columns == 0 || (!dgamma.present() && !dbeta.present())) return;
    const std::int64_t weights = r.columns * r.groups;
    const RowChunks split = RowChunks::of_groups(r.rows / r.groups, weights);
    const std::int64_t numbers = 2 * split.chunks * weights;
    auto* sums =
        reinterpret_cast<double*>(call.stream.scratch(sizeof(double) * static_cast<std::size_t>(numbers)));
    run(call.stream, split.chunks * groups_of(weights),
        RowNormWeightChunks{rows_of(call, r), call.values[0].floats(), call.gradients.back().floats(), split,
                            sums});
    run(call.stream, weights, RowNormWeights{sums, split, dgamma, dbeta});
  }

  bool rms_;
};

}  // namespace

std::vector<KernelEntry> row_norm_kernels() {
  static const RowNorm layer_norm(false), rms_norm(true);
  return {{"layer_norm", &layer_norm}, {"rms_norm", &rms_norm}};
}

}  // namespace pipesim::gpu

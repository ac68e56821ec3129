#include "executor/gpu/bodies/cross_entropy.h"

#include "executor/gpu/steps/chunks.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/cross_entropy.h"
#include "executor/operators/rows.h"

namespace pipesim::gpu {
namespace {

/// Uses, statistics and saved bytes are those of cpu::CrossEntropy.
class CrossEntropy : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(Rows(op, ranges).rows);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const Rows r(call.op, call.ranges);
    LabelledRows rows = labelled(call, r);
    rows.most = call.statistics[0].data();
    rows.sums = call.statistics[1].data();
    if (segment == 0) {
      run(call.stream, r.rows, CrossEntropySums{rows, r.whole()});
    } else if (segment == 2) {
      loss(call, rows, r.rows);
    } else if (!r.whole()) {
      run(call.stream, r.rows, CrossEntropyShares{rows});
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    const Rows r(call.op, call.ranges);
    run(call.stream, r.rows,
        CrossEntropyGradient{labelled(call, r), log_sums(call), call.gradients[2].floats(),
                             call.gradients[0].floats(), counted_rows(call.op, call.step.added_up)});
  }

 private:
  static LabelledRows labelled(const ShardCall& call, const Rows& r) {
    return {call.values[0].floats(), call.values[1].integers(), r.columns, r.owned.begin};
  }
  static float* log_sums(const ShardCall& call) { return reinterpret_cast<float*>(call.saved.data()); }

  static void loss(const ShardCall& call, const LabelledRows& rows, std::int64_t count) {
    const ReducedTo to{nullptr, call.values[2].floats(), counted_rows(call.op, call.step.microbatches)};
    const RowChunks split = chunks_for_teams(count, 1);
    CrossEntropyLoss body{rows, log_sums(call), split, to};
    if (split.chunks > 1) {
      auto* sums = reinterpret_cast<double*>(
          call.stream.scratch(sizeof(double) * static_cast<std::size_t>(split.chunks)));
      body.to = {sums, {}, 1};
    }
    run(call.stream, split.chunks, body);
    if (split.chunks > 1) run(call.stream, 1, CombineByTeams{{body.to.exact, split, false, to}});
  }
};

}  // namespace

std::vector<KernelEntry> cross_entropy_kernels() {
  static const CrossEntropy cross_entropy;
  return {{"cross_entropy", &cross_entropy}};
}

}  // namespace pipesim::gpu

#include "executor/gpu/bodies/softmax.h"

#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/rows.h"

namespace pipesim::gpu {
namespace {

/// Uses and statistics are those of cpu::Softmax. Rows that no other shard has a part of take one launch a
/// pass.
class Softmax : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t segment) const override {
    const Rows r(call.op, call.ranges);
    const Floats x = call.values[0].floats(), y = call.values[1].floats();
    double *most = call.statistics[0].data(), *sum = call.statistics[1].data();
    if (segment == 0) {
      run(call.stream, r.rows, SoftmaxSums{x, y, r.columns, most, sum, r.whole()});
    } else if (r.whole()) {
      return;
    } else if (segment == 1) {
      run(call.stream, r.rows, SoftmaxRescale{most, sum});
    } else {
      run(call.stream, r.rows, SoftmaxValues{x, y, r.columns, most, sum});
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const Rows r(call.op, call.ranges);
    const Floats dx = call.gradients[0].floats();
    const bool add_up = segment == 0, finish = dx.present() && r.whole() == add_up;
    if (add_up || finish) {
      run(call.stream, r.rows,
          SoftmaxGradient{call.values[1].floats(), call.gradients[1].floats(), dx, r.columns,
                          call.statistics[0].data(), add_up, finish});
    }
  }
};

}  // namespace

std::vector<KernelEntry> softmax_kernels() {
  static const Softmax softmax;
  return {{"softmax", &softmax}};
}

}  // namespace pipesim::gpu

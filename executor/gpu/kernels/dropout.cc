#include "executor/gpu/bodies/dropout.h"

#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/attributes.h"

namespace pipesim::gpu {
namespace {

/// values: x, y. The mask is that of cpu::Dropout, bit for bit.
class DropoutKernel : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    mask(call, call.values[0], call.values[1]);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (call.gradients[0].present()) mask(call, call.gradients[1], call.gradients[0]);
  }

 private:
  static void mask(const ShardCall& call, const Piece& x, const Piece& y) {
    const NumbersInBatch numbers(call.op.uses[0], y.box, call.step.microbatch);
    run_in_groups(call.stream, y.elements(),
                  Dropout{x.floats(), y.floats(), numbers,
                          DropoutRate(call.op.name, real_of(call.op, "rate")), call.device_step});
  }
};

}  // namespace

std::vector<KernelEntry> dropout_kernels() {
  static const DropoutKernel dropout;
  return {{"dropout", &dropout}};
}

}  // namespace pipesim::gpu

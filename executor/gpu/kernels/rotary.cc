#include "executor/gpu/bodies/rotary.h"

#include "executor/gpu/steps/chunks.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// Computes the same as cpu::Rotary. values: x[b, s, …, d], y.
class Rotary : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    turn(call, call.values[0], call.values[1], false);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (call.gradients[0].present()) turn(call, call.gradients[1], call.gradients[0], true);
  }

 private:
  static void turn(const ShardCall& call, const Piece& x, const Piece& y, bool back) {
    const RotaryShape shape(call.op, call.ranges);
    const std::int64_t parts = rounded_up_quotient(shape.samples * shape.heads, Turn::kRows);
    run(call.stream, parts * shape.positions * Turn::columns(shape),
        Turn{x.floats(), y.floats(), shape, back});
  }
};

}  // namespace

std::vector<KernelEntry> rotary_kernels() {
  static const Rotary rotary;
  return {{"rotary", &rotary}};
}

}  // namespace pipesim::gpu

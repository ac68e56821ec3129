#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/dropout_mask.h"

namespace pipesim::cpu {
namespace {

/// values: x, y. Whether an element is kept depends on its place in the global batch alone, so every split,
/// copy and number of microbatches agrees, and backward finds the same mask again.
class Dropout : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    mask(call, call.values[0].floats, call.values[1].floats);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    mask(call, call.gradients[1].floats, call.gradients[0].floats);
  }

 private:
  static void mask(const ShardCall& call, const float* x, float* y) {
    const Box box = box_of(call, 0);
    const DropoutMask masked(call.op.name, call.step, real_of(call.op, "rate"));
    const NumbersInBatch numbers(call.op.uses[0], box, call.step.microbatch);
    const std::int64_t columns = box[box.dims() - 1].length(), rows = box.elements() / columns;
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const std::uint64_t first = numbers(row * columns);
      for (std::int64_t j = 0; j < columns; ++j) y[j] = masked(first + static_cast<std::uint64_t>(j), x[j]);
    }
  }
};

}  // namespace

std::vector<KernelEntry> dropout_kernels() {
  static const Dropout dropout;
  return {{"dropout", &dropout}};
}

}  // namespace pipesim::cpu

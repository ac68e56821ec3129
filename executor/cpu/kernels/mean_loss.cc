#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/activation.h"

namespace pipesim::cpu {
namespace {

struct SquaredError {
  static double value(double x, double target) { return (x - target) * (x - target); }
  static float slope(float x, float target) { return 2 * (x - target); }
  static float target_slope(float x, float target) { return 2 * (target - x); }
};

/// The binary cross entropy of sigmoid(x) and the target is max(x, 0) − x · target + ln(1 + exp(−|x|)).
struct BinaryCrossEntropy {
  static double value(double x, double target) {
    return std::max(x, 0.0) - x * target + std::log1p(std::exp(-std::abs(x)));
  }
  static float slope(float x, float target) { return logistic(x) - target; }
  static float target_slope(float x, float) { return -x; }
};

/// values: x, target, loss []: a shard's part of the mean over all elements of the batch.
template <class Function>
class MeanLoss : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &target = call.values[1];
    double sum = 0;
    for_each_term(x.elements(), call.step.sums, [&](std::int64_t i) {
      sum += Function::value(static_cast<double>(x.floats[i]), static_cast<double>(target.floats[i]));
    });
    call.values[2].floats[0] = static_cast<float>(sum / counted(call.op, call.step.microbatches));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &target = call.values[1];
    const auto scale = static_cast<float>(static_cast<double>(call.gradients[2].floats[0]) /
                                          counted(call.op, call.step.added_up));
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      if (call.gradients[0].present())
        call.gradients[0].floats[i] = scale * Function::slope(x.floats[i], target.floats[i]);
      if (call.gradients[1].present())
        call.gradients[1].floats[i] = scale * Function::target_slope(x.floats[i], target.floats[i]);
    }
  }

 private:
  /// Elements of the unsplit x in so many microbatches.
  static double counted(const Operator& op, std::int64_t microbatches) {
    return static_cast<double>(whole_volume(op.uses[0], 0, op.uses[0].dims.size()) * microbatches);
  }
};

}  // namespace

std::vector<KernelEntry> mean_loss_kernels() {
  static const MeanLoss<SquaredError> squared_error;
  static const MeanLoss<BinaryCrossEntropy> binary_cross_entropy;
  return {{"squared_error", &squared_error}, {"binary_cross_entropy", &binary_cross_entropy}};
}

}  // namespace pipesim::cpu

#include <algorithm>

#include "executor/cpu/kernels/families.h"

namespace pipesim::cpu {
namespace {

class Relu : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &y = call.values[1];
    for (std::int64_t i = 0; i < y.elements(); ++i) y.floats[i] = std::max(x.floats[i], 0.0F);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &y = call.values[1], &dx = call.gradients[0], &dy = call.gradients[1];
    for (std::int64_t i = 0; i < dx.elements(); ++i) dx.floats[i] = y.floats[i] > 0 ? dy.floats[i] : 0.0F;
  }
};

}  // namespace

std::vector<KernelEntry> elementwise_kernels() {
  static const Relu relu;
  return {{"relu", &relu}};
}

}  // namespace pipesim::cpu

#include <algorithm>

#include "executor/cpu/kernels/kernel.h"

namespace pipesim::cpu {
namespace {

/// values: w, y, the same elements.
class Parameter : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    copy(call.values[0], call.values[1]);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (call.gradients[0].present()) copy(call.gradients[1], call.gradients[0]);
  }

 private:
  static void copy(const Piece& from, const Piece& to) { std::copy_n(from.floats, to.elements(), to.floats); }
};

}  // namespace

std::vector<KernelEntry> parameter_kernels() {
  static const Parameter parameter;
  return {{"parameter", &parameter}};
}

}  // namespace pipesim::cpu

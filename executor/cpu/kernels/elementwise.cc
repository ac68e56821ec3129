#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// y = f(x). values: x, y.
class Unary : public Kernel {
 public:
  explicit Unary(Activation activation) : activation_(activation) {}
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    activate(activation_, floats_of(call.values[0]), floats_of(call.values[1]));
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& kept = call.values[needs_input(activation_) ? 0 : 1];
    activation_gradient(activation_, floats_of(kept), floats_of(call.gradients[1]),
                        floats_of(call.gradients[0]));
  }

 private:
  Activation activation_;
};

}  // namespace

std::vector<KernelEntry> elementwise_kernels() {
  static const Unary relu(Activation::Relu), gelu(Activation::Gelu), silu(Activation::Silu),
      tanh(Activation::Tanh), sigmoid(Activation::Sigmoid), relu2(Activation::Relu2);
  return {{"relu", &relu}, {"gelu", &gelu},       {"silu", &silu},
          {"tanh", &tanh}, {"sigmoid", &sigmoid}, {"relu2", &relu2}};
}

}  // namespace pipesim::cpu

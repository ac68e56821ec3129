#include "executor/gpu/bodies/elementwise.h"

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// y = f(x). values: x, y.
class Unary : public Kernel {
 public:
  explicit Unary(Activation activation) : activation_(activation) {}
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& y = call.values[1];
    run_in_groups(call.stream, y.elements(), Activate{call.values[0].floats(), y.floats(), {}, activation_});
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &kept = call.values[needs_input(activation_) ? 0 : 1], &dx = call.gradients[0];
    if (!dx.present()) return;
    run_in_groups(call.stream, dx.elements(),
                  ActivationGradient{kept.floats(), call.gradients[1].floats(), dx.floats(), activation_});
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

}  // namespace pipesim::gpu

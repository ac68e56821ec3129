#pragma once

#include "executor/cpu/kernels/kernel.h"
#include "executor/gpu/machine/machine.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

/// A kernel of devices behind the interface of CPU kernels: operands go to device 0 of a machine, in a type
/// of elements, and results come back. Gradients of weights may be of another type.
class KernelOnMachine : public cpu::Kernel {
 public:
  KernelOnMachine(const gpu::Kernel& kernel, Machine& machine, DataType type)
      : KernelOnMachine(kernel, machine, type, type) {}
  KernelOnMachine(const gpu::Kernel& kernel, Machine& machine, DataType type, DataType weight_gradients)
      : kernel_(kernel), machine_(machine), type_(type), weight_gradients_(weight_gradients) {}
  [[nodiscard]] std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return kernel_.saved_bytes(op, ranges);
  }
  void forward(const cpu::ShardCall& call, std::size_t segment) const override;
  void backward_input(const cpu::ShardCall& call, std::size_t segment) const override;
  void backward_weight(const cpu::ShardCall& call) const override;

 private:
  template <class Pass>
  void run(const cpu::ShardCall& call, Pass pass) const;

  const gpu::Kernel& kernel_;
  Machine& machine_;
  DataType type_, weight_gradients_;
};

}  // namespace pipesim::gpu

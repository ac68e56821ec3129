#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "models/box.h"
#include "models/operator.h"
#include "sim/base/errors.h"

namespace pipesim {

/// The computation of one kind of operator on a shard's own boxes. It is the same for every backend except
/// for the Call, which says where the operands are. Kernels have no state and know nothing of devices or
/// layouts; the operator's index maps determine what a shard must hold. A pass with n inner steps (InnerStep
/// of that pass, in order) is cut into n + 1 segments, called one after the other. The statistics of step i
/// are complete from segment i + 1 on. Statistics, outputs and gradients keep the values that earlier
/// segments of the pass wrote. In a ring (ParallelConfig::ring) a call has one block of the keys: forward
/// calls only the first segment, for each block; backward calls all segments for the first block, and the
/// last one for the other blocks. Gradients are those of the addend that this shard contributes (operator
/// algebra, section 1). Safe to call from several threads.
template <class Call>
class OperatorKernel {
 public:
  virtual ~OperatorKernel() = default;
  /// Bytes that the shard keeps from forward to backward besides uses with `saved`.
  [[nodiscard]] virtual std::size_t saved_bytes(const Operator& /*op*/,
                                                std::span<const Range> /*ranges*/) const {
    return 0;
  }
  virtual void forward(const Call& call, std::size_t segment) const = 0;
  /// Computes the gradients of inputs, and those of weights when the operator has no separate weight pass
  /// (Operator::flops_backward_weight is empty).
  virtual void backward_input(const Call& call, std::size_t /*segment*/) const {
    throw InternalError("kind " + call.op.kind + " has no backward pass for its inputs");
  }
  virtual void backward_weight(const Call& call) const {
    throw InternalError("kind " + call.op.kind + " has no backward pass for its weights");
  }
};

template <class Kernel>
struct NamedKernel {
  std::string_view kind;
  const Kernel* kernel;
};

/// The kernels of one backend.
template <class Kernel>
class KernelTable {
 public:
  /// `families`: functions that list some kernels each.
  explicit KernelTable(std::span<std::vector<NamedKernel<Kernel>> (*const)()> families) {
    for (const auto family : families) {
      for (const NamedKernel<Kernel>& named : family()) kernels_.push_back(named);
    }
    std::ranges::sort(kernels_, {}, &NamedKernel<Kernel>::kind);
  }
  /// Returns the kernel of this kind, or nullptr when there is none.
  [[nodiscard]] const Kernel* find(std::string_view kind) const {
    const auto at = std::ranges::lower_bound(kernels_, kind, {}, &NamedKernel<Kernel>::kind);
    return at == kernels_.end() || at->kind != kind ? nullptr : at->kernel;
  }
  /// Returns all kinds that have a kernel, sorted.
  [[nodiscard]] std::vector<std::string_view> kinds() const {
    std::vector<std::string_view> kinds;
    for (const NamedKernel<Kernel>& named : kernels_) kinds.push_back(named.kind);
    return kinds;
  }

 private:
  std::vector<NamedKernel<Kernel>> kernels_;
};

}  // namespace pipesim

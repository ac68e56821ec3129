#pragma once

#include <cstdint>
#include <span>

#include "costmodel/training/optimizer.h"
#include "models/operator.h"

namespace pipesim {

/// The kernels of a kind of devices, as far as compiling a program depends on them.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  /// InputError `operator "x" (profiled) has no cpu kernel; kinds that have one: …`.
  virtual void require_kernel(const Operator& op) const = 0;
  /// InputError where the operator's kernel can't take keys block by block, as they pass round a ring.
  virtual void require_ring(const Operator& op) const = 0;
  /// InputError where there is no step of the optimizer, or none with these types: `optimizer "muon": …`.
  virtual void require_optimizer(const Optimizer& optimizer) const = 0;
  /// The type in which kernels take operands of a stored type. Operands of other types are converted before
  /// and after.
  [[nodiscard]] virtual DataType kernel_type(DataType stored) const;
  /// Bytes that a shard's kernel keeps from forward to backward, besides saved tensors.
  [[nodiscard]] virtual std::int64_t saved_bytes(const Operator& op, std::span<const Range> ranges) const = 0;
};

/// For require_kernel(): InputError for what no kernel here does: products in another type than the operands'
/// (Operator::casts), tensors that are kept or sent in another type than theirs or by nodes (TensorUse), and
/// weights that do not lie in their type (WeightStorage).
void require_own_type(const Operator& op);

/// For require_optimizer(): InputError where the optimizer's kind, or the type of its moments, has no step in
/// executor/operators/optimizer.h.
void require_steps(const Optimizer& optimizer);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <span>

#include "models/operator.h"

namespace pipesim {

/// What a program must be fitted to: the kernels of a kind of devices.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  /// InputError `operator "x" (profiled) has no cpu kernel; kinds that have one: …`.
  virtual void require_kernel(const Operator& op) const = 0;
  /// In what type kernels take operands of a stored type; others are converted before and after.
  [[nodiscard]] virtual DataType kernel_type(DataType stored) const;
  /// Bytes that a shard's kernel keeps from forward to backward, beside saved tensors.
  [[nodiscard]] virtual std::int64_t saved_bytes(const Operator& op, std::span<const Range> ranges) const = 0;
};

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/backend/operator_kernel.h"
#include "executor/gpu/bodies/parts/device_step.h"
#include "executor/gpu/machine/stream.h"
#include "executor/operators/step_context.h"
#include "models/box.h"
#include "models/operator.h"
#include "sim/base/data_type.h"

namespace pipesim::gpu {

/// A piece of a tensor in device memory: contiguous, row-major over `box`, whose ranges count in the whole
/// tensor. Integers are int64.
struct Piece {
  Box box;
  std::byte* memory = nullptr;
  DataType type = DataType::Float32;
  [[nodiscard]] bool present() const { return memory != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return box.elements(); }
  /// InternalError for integers.
  [[nodiscard]] Floats floats() const;
  [[nodiscard]] std::int64_t* integers() const { return reinterpret_cast<std::int64_t*>(memory); }
};

/// How elements of that type lie in memory. InternalError for types that are no floating-point numbers.
Stored stored_as(DataType type);

/// One shard of an operator in one pass, like cpu::ShardCall, except that pieces, statistics and saved bytes
/// are in device memory.
struct ShardCall {
  const Operator& op;
  std::span<const Range> ranges;
  std::span<const Piece> values;
  std::span<const Piece> gradients;
  std::span<const std::span<double>> statistics;
  std::span<std::byte> saved;
  const StepContext& step;  ///< microbatch and numbers of microbatches; not: step and seed, see device_step
  const DeviceStep* device_step;  ///< in device memory
  Stream& stream;
};

/// Notes work in the call's stream; nothing in device memory may be read or written by the host. Safe to call
/// for several devices side by side.
using Kernel = OperatorKernel<ShardCall>;
using KernelEntry = NamedKernel<Kernel>;

}  // namespace pipesim::gpu

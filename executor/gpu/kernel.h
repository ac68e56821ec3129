#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/gpu/device_step.h"
#include "executor/gpu/stream.h"
#include "executor/step_context.h"
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

/// One shard of an operator in one pass, as cpu::ShardCall, but for where things lie: pieces, statistics and
/// saved bytes are in device memory.
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

/// As cpu::Kernel, with the same passes, segments and statistics. Work is noted in the call's stream; nothing
/// in device memory may be read or written by the host. Safe to call for several devices side by side.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// What the shard keeps from forward to backward beside uses with `saved`.
  [[nodiscard]] virtual std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const;
  virtual void forward(const ShardCall& call, std::size_t segment) const = 0;
  virtual void backward_input(const ShardCall& call, std::size_t segment) const;
  virtual void backward_weight(const ShardCall& call) const;
};

struct KernelEntry {
  std::string_view kind;
  const Kernel* kernel;
};

/// The kernel of a kind of operator; nullptr when there is none.
const Kernel* find_kernel(std::string_view kind);
/// Kinds that have a kernel, sorted.
std::vector<std::string_view> kernel_kinds();

}  // namespace pipesim::gpu

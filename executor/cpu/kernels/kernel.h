#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/backend/operator_kernel.h"
#include "executor/operators/step_context.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim::cpu {

/// A piece of a tensor as a kernel sees it: contiguous, row-major over `box`, whose ranges count in the whole
/// tensor. Floating-point elements are float32 here, whatever type they are kept in; integers are int64.
struct Piece {
  Box box;
  float* floats = nullptr;
  std::int64_t* integers = nullptr;
  [[nodiscard]] bool present() const { return floats != nullptr || integers != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return box.elements(); }
};

/// One shard of an operator in one pass. Pieces are indexed like Operator::uses; those that the pass does not
/// have are not present().
struct ShardCall {
  const Operator& op;
  std::span<const Range> ranges;  ///< of every factor: this shard's part
  std::span<const Piece> values;  ///< forward: inputs, indices, weights to read, outputs to fill, states to
                                  ///< update; backward: weights, indices, and the uses with `saved`, to read
  /// Backward reads the gradients of outputs, and fills every element of those of inputs and weights, with
  /// zeros where no gradient comes. A gradient that nobody wants is not present().
  std::span<const Piece> gradients;
  /// There is one for each inner step of this pass, in order. Segment i fills it; when segment i + 1 begins,
  /// it holds the sum over all shards.
  std::span<const std::span<double>> statistics;
  std::span<std::byte> saved;  ///< Kernel::saved_bytes() bytes, aligned to 64, kept from forward to backward
  const StepContext& step;
  bool continues = false;  ///< block after block of a ring: adds to what the call before has made
};

using Kernel = OperatorKernel<ShardCall>;
using KernelEntry = NamedKernel<Kernel>;

/// The kernel of a kind of operator; nullptr when there is none.
const Kernel* find_kernel(std::string_view kind);
/// Kinds that have a kernel, sorted.
std::vector<std::string_view> kernel_kinds();

}  // namespace pipesim::cpu

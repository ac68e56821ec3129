#pragma once

#include <optional>
#include <span>

#include "costmodel/matrix_efficiency.h"
#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// A shard of an operator over experts has more tokens than its ranges say, or fewer.
struct TokenLoad {
  double times = 1;         ///< as many
  FactorIndex tokens = -1;  ///< the factor that counts the tokens of an expert; −1: there is none
  [[nodiscard]] bool is_even() const { return times == 1; }
  bool operator==(const TokenLoad&) const = default;
};

/// Work of a kernel: everything that its analytic time depends on besides the device.
struct KernelWork {
  double flops = 0, bytes = 0;
  std::optional<MatrixSize> matrix;
  double bytes_apart = 0;  ///< of SeparateKernels, without the next
  /// Where a framework adds gradients of weights to sums: the bytes of the gradients, and the bytes to read
  /// and write the sums.
  double gradient_bytes = 0, sum_bytes = 0;
  double exposed_bytes = 0;    ///< that move while nothing is computed, in the same kernel
  bool in_turn = false;        ///< SeparateKernels::in_turn
  bool norm_backward = false;  ///< a backward pass of SeparateKernels::norm
  bool sorts = false;          ///< bytes_apart are those of SeparateKernels::sorted
  /// Bytes that Casts move before the product can begin. Weights are apart: they may be in float8 already.
  double cast_bytes = 0, weight_cast_bytes = 0;
  /// Bytes that a kernel moves before the product can begin, which brings weights from WeightStorage into
  /// their type.
  double unpacked_bytes = 0;
  bool operator==(const KernelWork&) const = default;
};

/// The work of a product that adds to the sums itself, and writes no gradient of its own. It reads and writes
/// them at the end of its tiles, when there is nothing left to compute for most of the device. On B200, 73
/// products of at least 1 TFLOP that do took longer than the other two of the same sizes by 0.74 of what
/// these bytes take, all together, by 0.45 in the median; all 144 by 0.66 (MooreThreads/SimuMax,
/// configs/system/b200_bf16_ceperm.json).
KernelWork with_sums(KernelWork work);

/// One pass of one shard.
struct ShardKernel {
  bool runs = false;                  ///< false: gradients that nothing wants, a reshape, an empty shard
  DataType type = DataType::Float32;  ///< in which products multiply
  KernelWork work;
  std::optional<double> measured;  ///< seconds that the operator brings along (a profile): no work then
};

/// The operands' element type: that of the first input, else of the first weight, else of the first use.
DataType operand_type(const OperatorGraph& graph, const Operator& op);

/// InternalError for Pass::Update and for a wrong number of ranges. With a load that is not even, all work
/// except the bytes of weights grows with the tokens. `sums`: the type in which weights' gradients
/// accumulate.
ShardKernel shard_kernel(const OperatorGraph& graph, const Operator& op, Pass pass,
                         std::span<const Range> ranges, const TokenLoad& load = {},
                         DataType sums = DataType::Float32);

/// Returns launch overhead + casts + unpacking + max(FLOPs at the achievable rate, bytes at the achievable
/// bandwidth).
Seconds analytic_time(const KernelWork& work, DataType type, const DeviceKind& kind,
                      std::int32_t flash_attention = kNewestFlashAttention);
/// The same in a framework that launches SeparateKernels.
Seconds analytic_time_of_separate(const KernelWork& work, DataType type, const DeviceKind& kind,
                                  std::int32_t flash_attention);
/// max(FLOPs at the peak rate, bytes at the peak bandwidth).
Seconds ideal_time(const KernelWork& work, DataType type, const DeviceKind& kind);

}  // namespace pipesim

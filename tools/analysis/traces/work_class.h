#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/matrix_efficiency.h"
#include "sim/base/data_type.h"
#include "tools/analysis/traces/measured_trace.h"

namespace pipesim {

/// What a kernel does for training, as far as its operator's name or its own tells.
enum class WorkClass : std::uint8_t {
  Products,
  Attention,  ///< the choice of its keys, too
  Scans,      ///< of state spaces and linear attention, with what they do within chunks
  Norms,
  Activations,
  Loss,
  Embedding,
  Optimizer,  ///< clips gradients, too
  GradientSums,
  Collectives,
  Copies,  ///< copies and fills that are no kernels
  Other    ///< point by point, sums, copies by kernels
};
inline constexpr std::size_t num_work_classes = 12;
std::string_view name_of(WorkClass kind);  ///< "products", …, "other kernels"

/// Returns the class of an activity. A collective is known by what it says of itself or by its kernel's name;
/// other work by the name of its operator, then of the operators that call it; without an operator, by the
/// kernel's name. Copies as large as what a loss reads belong to the loss.
WorkClass class_of(const MeasuredTrace& trace, const DeviceActivity& activity);

/// Work that an operator's inputs tell.
struct TracedWork {
  std::optional<MatrixSize> matrix;  ///< of products and attention
  std::optional<DataType> type;      ///< in which they multiply; of others: of the first tensor
  double flops = 0;                  ///< of products and attention; causal attention counts what is visible
  double bytes = 0;                  ///< that operators bound by memory read and write at least; 0: not known
};

/// FLOPs of aten::mm, addmm, bmm, baddbmm, linear, _scaled_mm, and of attention by FlashAttention, cuDNN and
/// the memory-efficient kernels, forward and backward (which is 2.5 times forward, since it makes the scores
/// again); bytes of point-by-point operators, norms, softmax, copies and sums, whose inputs tell their
/// outputs. Lists of tensors tell nothing, since the type of their elements is not recorded.
TracedWork work_of(std::string_view operator_name, const TracedCall& call);

/// "c10::BFloat16" and the like, or "BFloat16" and the like of collectives; nothing for other texts.
std::optional<DataType> traced_type(std::string_view text);

/// Shapes and types in short: "2048x1024, 1024x4096 bfloat16".
std::string inputs_text(const TracedCall& call);

}  // namespace pipesim

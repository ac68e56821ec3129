#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/operator.h"
#include "topologies/topology.h"

namespace pipesim {

/// Attention in one kernel without stored scores, which reaches a share of the peak rate of its own.
enum class FusedPass : std::uint8_t { None, Forward, Backward };

/// A product of rows × inner and inner × columns, `batch` times.
struct MatrixSize {
  std::int64_t batch = 1, rows = 1, columns = 1, inner = 1;
  FusedPass fused = FusedPass::None;
  double visible_keys = 0;     ///< of fused attention: that a query sees, on average
  std::int32_t cut_edges = 1;  ///< of fused attention: ends of what a query sees, inside a row of keys
  bool operator==(const MatrixSize&) const = default;
};

/// The product that a pass of a shard computes. Forward Y = X·W is rows × columns over inner; the gradient of
/// the input dY·Wᵀ is rows × inner over columns; the gradient of the weight Xᵀ·dY is inner × columns over
/// rows.
MatrixSize matrix_size(const MatrixShape& shape, Pass pass, std::span<const Range> ranges);

/// The units of a device that multiply matrices of one element type.
enum class MatrixUnits : std::uint8_t {
  Plain,  ///< the same units that add vectors: needs little reuse of operands
  Matrix  ///< tensor cores: many times faster, so operands must be reused many times as often
};

/// A kind has matrix units for a type that it multiplies at least four times as fast as plain float32.
/// (Packed float16 on plain units gives twice the rate, V100's tensor cores eight times.)
MatrixUnits matrix_units(const DeviceKind& kind, DataType type);

/// Share of the rate of a large, aligned product that this shape reaches, in (0, 1].
///
/// A kernel computes the result in tiles. The part of a tile outside the matrix is wasted. A smaller tile
/// wastes less but reads each operand more often, and the first and last steps along the inner dimension
/// don't overlap. The best tile is used, as a library's heuristic would choose it. The number of tiles that
/// keeps a whole device busy is not modelled here; the kind's efficiency by kernel size covers it.
double matrix_efficiency(const MatrixSize& size, MatrixUnits units);

/// The newest version of FlashAttention; kinds know which version suits them.
constexpr std::int32_t kNewestFlashAttention = 4;

/// Returns the share of the peak rate that fused attention reaches, in (0, 1]; nothing for other products,
/// and where the kind has no share. It is the kind's share, scaled by heads' width as matrix_efficiency() of
/// the scores is. `flash_attention`: its version, see DeviceKind::flash_attention_2.
std::optional<double> fused_efficiency(const MatrixSize& size, DataType type, const DeviceKind& kind,
                                       std::int32_t flash_attention = kNewestFlashAttention);

}  // namespace pipesim

#include "costmodel/matrix_efficiency.h"

#include <algorithm>
#include <array>

#include "costmodel/cost_model.h"

namespace pipesim {

namespace {

struct Tile {
  std::int64_t rows, columns;
  double fill;  ///< inner steps lost at the beginning and end
  double rate;  ///< of the largest tile's
};

/// Tiles of GPU matrix libraries (CUTLASS's default set); the rate falls with the operands' reuse, 2/(1/r +
/// 1/c) of a tile's sides, tempered by caches. The last one is a kernel without matrix units, for shapes that
/// fill no tile: 1/16 is plain against matrix-unit rate on A100 (19.5 of 312 TFLOP/s) and H100 (67 of 989).
constexpr std::array<Tile, 6> matrix_tiles{{{128, 128, 32, 1.0},
                                            {128, 64, 32, 0.9},
                                            {64, 128, 32, 0.9},
                                            {64, 64, 32, 0.7},
                                            {32, 32, 32, 0.4},
                                            {1, 1, 0, 1.0 / 16}}};

/// Plain units are some 16 times slower, so by the same law tiles of an eighth of the sides still feed them;
/// the steps along the inner dimension are 8 deep. The last one is a dot product for each element, an
/// estimate.
constexpr std::array<Tile, 8> plain_tiles{{{128, 64, 8, 1.0},
                                           {64, 64, 8, 1.0},
                                           {64, 32, 8, 0.9},
                                           {32, 64, 8, 0.9},
                                           {64, 16, 8, 0.8},
                                           {16, 64, 8, 0.8},
                                           {16, 16, 8, 0.6},
                                           {1, 1, 0, 0.25}}};

std::span<const Tile> tiles_for(MatrixUnits units) {
  if (units == MatrixUnits::Matrix) return matrix_tiles;
  return plain_tiles;
}

std::int64_t product(const std::vector<FactorIndex>& factors, std::span<const Range> ranges) {
  std::int64_t result = 1;
  for (FactorIndex f : factors) result *= ranges[static_cast<std::size_t>(f)].length();
  return result;
}

/// Used part of a dimension that is computed in whole tiles.
double used_part(std::int64_t length, std::int64_t tile) {
  std::int64_t tiled = (length + tile - 1) / tile * tile;
  return static_cast<double>(length) / static_cast<double>(tiled);
}

}  // namespace

MatrixSize matrix_size(const MatrixShape& shape, Pass pass, std::span<const Range> ranges) {
  MatrixSize size{product(shape.batch, ranges), product(shape.rows, ranges) * shape.rows_times,
                  product(shape.columns, ranges) * shape.columns_times,
                  product(shape.inner, ranges) * shape.inner_times};
  if (shape.fused) size.fused = pass == Pass::Forward ? FusedPass::Forward : FusedPass::Backward;
  if (pass == Pass::BackwardInput) std::swap(size.columns, size.inner);
  if (pass == Pass::BackwardWeight) std::swap(size.rows, size.inner);
  return size;
}

MatrixUnits matrix_units(const DeviceKind& kind, DataType type) {
  const auto plain = kind.peak.find(DataType::Float32);
  const bool faster = plain != kind.peak.end() && peak_rate(kind, type).value >= 4 * plain->second.value;
  return faster ? MatrixUnits::Matrix : MatrixUnits::Plain;
}

double matrix_efficiency(const MatrixSize& size, MatrixUnits units) {
  double best = 0;
  auto inner = static_cast<double>(size.inner);
  for (const Tile& tile : tiles_for(units)) {
    double used = used_part(size.rows, tile.rows) * used_part(size.columns, tile.columns);
    best = std::max(best, tile.rate * used * inner / (inner + tile.fill));
  }
  return best;
}

std::optional<double> fused_efficiency(const MatrixSize& size, DataType type, const DeviceKind& kind,
                                       std::int32_t flash_attention) {
  const bool takes = type == DataType::Float16 || type == DataType::BFloat16;
  if (size.fused == FusedPass::None || !kind.fused_attention || !takes) return std::nullopt;
  const bool forward = size.fused == FusedPass::Forward;
  const bool older = flash_attention <= 2 && kind.flash_attention_2;
  const FusedAttention& shares = older ? *kind.flash_attention_2 : *kind.fused_attention;
  // Version 1 reaches at most 0.5 and 0.35 of an A100's peak, version 2 0.73 and 0.63 (Dao,
  // arXiv:2307.08691).
  const FusedAttention first =
      flash_attention == 1 ? FusedAttention{0.5 / 0.73, 0.35 / 0.63} : FusedAttention{};
  const double share = forward ? shares.forward * first.forward : shares.backward * first.backward;
  if (!kind.shape_losses) return share;
  MatrixSize scores = size;
  if (!forward) std::swap(scores.columns, scores.inner);
  const MatrixUnits units = matrix_units(kind, type);
  constexpr std::int64_t kLong = 1 << 20, kHeadWidth = 128;  // of FusedAttention
  const double known = matrix_efficiency({1, kLong, kLong, kHeadWidth}, units);
  const double lost = shares.half_rate_keys * size.cut_edges;
  const double cut = lost > 0 && size.visible_keys > 0 ? size.visible_keys / (size.visible_keys + lost) : 1;
  const double rows = static_cast<double>(scores.batch) * static_cast<double>(scores.rows);
  const double filled = rows / (rows + shares.half_rate_rows);
  return std::min(1.0, share * cut * filled * matrix_efficiency(scores, units) / known);
}

}  // namespace pipesim

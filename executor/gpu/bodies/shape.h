#pragma once

#include <array>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/strided.h"

namespace pipesim::gpu {

/// A tensor of integers, used as Floats are.
struct Integers {
  std::int64_t* memory = nullptr;
  [[nodiscard]] PIPESIM_DEVICE bool present() const { return memory != nullptr; }
  PIPESIM_DEVICE std::int64_t operator[](std::int64_t i) const { return memory[i]; }
  PIPESIM_DEVICE void set(std::int64_t i, std::int64_t value) const { memory[i] = value; }
};

/// Moves rows between a tensor and its parts, which follow one another in it. There is an index for each
/// element that the parts cover of the tensor's rows, from `first` on. A part that is not present counts as
/// zeros when parts are joined, and is passed over when they are cut out.
template <class Tensor>
struct RowParts {
  static constexpr int most = 16;
  std::int64_t row = 0, first = 0,
               covered = 0;  ///< elements: of a row of the tensor, and covered by the parts
  Tensor tensor;
  std::array<Tensor, most> parts{};
  std::array<std::int64_t, most> ends{};  ///< from `first` on, ascending
  int count = 0;
  bool join = false;  ///< parts → tensor, else tensor → parts

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t r = i / covered, at = i % covered;
    int p = 0;
    std::int64_t begin = 0;
    while (p + 1 < count && at >= ends[p]) begin = ends[p++];
    const std::int64_t place = r * row + first + at, place_in_part = r * (ends[p] - begin) + at - begin;
    const Tensor& part = parts[p];
    if (join) {
      tensor.set(place, part.present() ? part[place_in_part] : 0);
    } else if (part.present()) {
      part.set(place_in_part, tensor[place]);
    }
  }
};

/// to[i] = from[at(i)].
template <class Tensor>
struct GatherStrided {
  Tensor from, to;
  Strided at;
  PIPESIM_DEVICE void operator()(std::int64_t i) const { to.set(i, from[at.at(i)]); }
};

/// A transpose whose rows are columns of the other side. A team moves a tile of 32 by 32 elements, so that
/// both sides are read and written in pieces of 32 elements: what its threads read across, they find in the
/// cache when they come to the next row.
template <class Tensor>
struct TransposeTiles {
  static constexpr std::int64_t side = 32;
  Tensor from, to;
  Strided outer_from{}, outer_to{};          ///< of the dims that are in no tile
  std::int64_t rows = 0, columns = 0;        ///< neighbours in `from` lie along rows, in `to` along columns
  std::int64_t to_row = 0, from_column = 0;  ///< elements from one to the next
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t row_tiles() const { return (rows + side - 1) / side; }
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t column_tiles() const {
    return (columns + side - 1) / side;
  }

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const std::int64_t tiles = row_tiles() * column_tiles(), outer = i / tiles, tile = i % tiles;
    const std::int64_t row = tile / column_tiles() * side, column = tile % column_tiles() * side;
    // A tile's elements are few: their numbers are divided in 32 bits.
    const auto width = static_cast<std::int32_t>(columns - column < side ? columns - column : side);
    const auto height = static_cast<std::int32_t>(rows - row < side ? rows - row : side);
    const std::int64_t source = outer_from.at(outer) + row + column * from_column;
    const std::int64_t target = outer_to.at(outer) + row * to_row + column;
    for (std::int32_t e = team.rank(); e < width * height; e += team.size()) {
      const std::int64_t r = e / width, c = e % width;
      to.set(target + r * to_row + c, from[source + r + c * from_column]);
    }
  }
};

using ShapeBodies = BodyList<RowParts<Floats>, RowParts<Integers>, GatherStrided<Floats>,
                             GatherStrided<Integers>, TransposeTiles<Floats>, TransposeTiles<Integers>>;

}  // namespace pipesim::gpu

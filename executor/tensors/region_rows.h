#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "executor/operators/device_code.h"
#include "models/box.h"
#include "sim/base/data_type.h"

namespace pipesim {

/// Elements of two pieces, counted from their first ones.
struct ElementPair {
  std::int64_t from = 0, to = 0;
};

/// A region that lies in the boxes of two row-major pieces, as rows that are contiguous in both. The first of
/// `dims` is the innermost.
struct RegionRows {
  RegionRows() = default;
  RegionRows(const Box& from, const Box& to, const Box& region);

  std::int64_t length = 1;  ///< elements of a row
  std::int64_t from_begin = 0, to_begin = 0;
  std::size_t dims = 0;
  std::array<std::int64_t, Box::max_dims> count{}, from_step{}, to_step{};

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = length;
    for (std::size_t i = 0; i < dims; ++i) n *= count[i];
    return n;
  }
  /// Element i of the region, in the order of its rows. Index: a type that counts all of them.
  template <class Index>
  [[nodiscard]] PIPESIM_DEVICE ElementPair at(Index i) const {
    if (dims == 0)
      return {from_begin + static_cast<std::int64_t>(i), to_begin + static_cast<std::int64_t>(i)};
    const Index row = i / static_cast<Index>(length);
    const auto within = static_cast<std::int64_t>(i - row * static_cast<Index>(length));
    ElementPair pair{from_begin + within, to_begin + within};
    Index left = row;
    for (std::size_t d = 0; d < dims; ++d) {
      const Index outer = left / static_cast<Index>(count[d]);
      const auto inner = static_cast<std::int64_t>(left - outer * static_cast<Index>(count[d]));
      pair.from += inner * from_step[d];
      pair.to += inner * to_step[d];
      left = outer;
    }
    return pair;
  }
};

/// InternalError where elements of one type should not become another's: numbers and integers stay apart.
void require_movable(DataType from, DataType to);

}  // namespace pipesim

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipesim {

/// Half-open [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t length() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
};

/// Kinds only name the factors for people, baselines and search moves; no rule of the algebra depends on
/// them.
enum class FactorKind : std::uint8_t { Sample, Attribute, Parameter, Reduction };

/// An independent index range of an operator's computation: a letter of its einsum.
struct Factor {
  std::string name;
  FactorKind kind = FactorKind::Sample;
  std::int64_t size = 1;
  std::int64_t granule = 1;             ///< cuts fall on multiples of it
  std::int64_t max_degree = INT64_MAX;  ///< 1: never split
  bool uneven = false;                  ///< degrees that do not divide size/granule are allowed
  bool operator==(const Factor&) const = default;
};

using FactorIndex = std::int32_t;  ///< position in Operator::factors

/// How one dimension of a tensor follows the factors.
struct IndexExpr {
  enum class Kind : std::uint8_t {
    Whole,   ///< needed in full by every shard
    Axis,    ///< factor + offset, clipped to [0, extent): plain dims, concat, split, slice
    Window,  ///< stride·f − pad + dilation·[0, kernel), clipped to [0, extent)
    Merged   ///< row-major product of factors
  };
  Kind kind = Kind::Whole;
  std::int64_t extent = 1;           ///< the dimension's size
  std::vector<FactorIndex> factors;  ///< none, one, one, one or more; most major first
  std::int64_t offset = 0;           ///< Axis
  std::int64_t stride = 1, dilation = 1, kernel = 1, pad = 0;  ///< Window (pad: before the first element)

  static IndexExpr whole(std::int64_t extent);
  static IndexExpr axis(FactorIndex factor, std::int64_t extent, std::int64_t offset = 0);
  static IndexExpr window(FactorIndex factor, std::int64_t extent, std::int64_t stride, std::int64_t kernel,
                          std::int64_t dilation, std::int64_t pad);
  /// Element f of the factor stands for the elements [f·length, (f + 1)·length) of the dimension, clipped to
  /// it.
  static IndexExpr blocks(FactorIndex factor, std::int64_t extent, std::int64_t length);
  static IndexExpr merged(std::vector<FactorIndex> factors, std::int64_t extent);
  /// Windows of neighbouring outputs overlap, so the gradients of different shards are addends.
  [[nodiscard]] bool overlaps() const { return kind == Kind::Window && dilation * (kernel - 1) + 1 > stride; }
  bool operator==(const IndexExpr&) const = default;
};

}  // namespace pipesim

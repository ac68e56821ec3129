#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/operator.h"

namespace pipesim {

/// Shard k of `degree` along a factor: cuts nest (a boundary of degree d is one of degree d·m).
/// Units u = size / granule; shard k owns units [⌊k·u/d⌋, ⌊(k+1)·u/d⌋).
Range cut(const Factor& factor, std::int64_t degree, std::int64_t k);

/// A rectangular piece of a tensor: one range per dimension, at most 8 dimensions. No dimensions: a scalar.
class Box {
 public:
  static constexpr std::size_t max_dims = 8;
  Box() = default;
  explicit Box(std::span<const Range> ranges);
  static Box whole(std::span<const std::int64_t> shape);

  [[nodiscard]] std::size_t dims() const { return dims_; }
  [[nodiscard]] Range operator[](std::size_t i) const { return ranges_[i]; }
  Range& operator[](std::size_t i) { return ranges_[i]; }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] bool inside(const Box& outer) const;
  [[nodiscard]] std::string str() const;  ///< "[0:4, 8:16]"
  std::strong_ordering operator<=>(const Box& o) const;
  bool operator==(const Box& o) const;
  friend std::optional<Box> intersection(const Box& a, const Box& b);  ///< none when they share no element
  [[nodiscard]] bool meets(const Box& o) const;                        ///< they share an element

 private:
  std::uint8_t dims_ = 0;
  std::array<Range, max_dims> ranges_{};
};

inline bool Box::meets(const Box& o) const {
  for (std::size_t i = 0; i < dims_; ++i) {
    if (std::max(ranges_[i].begin, o.ranges_[i].begin) >= std::min(ranges_[i].end, o.ranges_[i].end))
      return false;
  }
  return true;
}

inline bool Box::inside(const Box& outer) const {
  if (dims_ != outer.dims_) return false;
  for (std::size_t i = 0; i < dims_; ++i) {
    if (ranges_[i].begin < outer.ranges_[i].begin || ranges_[i].end > outer.ranges_[i].end) return false;
  }
  return true;
}

inline bool Box::operator==(const Box& o) const {
  if (dims_ != o.dims_) return false;
  for (std::size_t i = 0; i < dims_; ++i) {
    if (ranges_[i] != o.ranges_[i]) return false;
  }
  return true;
}

/// Whether the box begins behind the end of the other in the first dimension. In an ascending list of boxes,
/// no later box meets the other then.
inline bool begins_behind(const Box& box, const Box& other) {
  return box.dims() > 0 && box[0].begin >= other[0].end;
}

/// The number of elements that both boxes have.
inline std::int64_t shared_elements(const Box& a, const Box& b) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < a.dims(); ++i) {
    const std::int64_t begin = std::max(a[i].begin, b[i].begin), end = std::min(a[i].end, b[i].end);
    if (begin >= end) return 0;
    elements *= end - begin;
  }
  return elements;
}

/// How far the windows of a shard hang over the tensor's border (padding the kernel must add, at the image's
/// border only).
struct Overhang {
  std::int64_t low = 0, high = 0;
  bool operator==(const Overhang&) const = default;
};

/// Two factors of a Merged dimension whose ranges together do not give one range: factor `cut` is split
/// although `unfinished`, a more major factor, still has more than one element.
struct MergedConflict {
  FactorIndex cut = -1, unfinished = -1;
  bool operator==(const MergedConflict&) const = default;
};

/// Checks the Merged rule without throwing: the first conflict among all uses, or none. Call it before
/// box_of() where a config may be illegal. It does not allocate.
std::optional<MergedConflict> merged_conflict(const Operator& op, std::span<const Range> factor_ranges);

/// The range of one tensor dimension that a shard with these factor ranges touches; may be empty.
/// InputError (Merged rule) when the set is not a range: "h is cut below an unfinished factor g".
Range index_range(const IndexExpr& expr, const Operator& op, std::span<const Range> factor_ranges,
                  Overhang* overhang = nullptr);

/// The box of a use for a shard with these factor ranges; empty boxes are returned as they are (see
/// Box::empty). `Once` is not looked at: it needs the shard's coordinates.
Box box_of(const TensorUse& use, const Operator& op, std::span<const Range> factor_ranges);

/// Σ coefficient · ∏ |f|.
double evaluate(std::span<const ProductTerm> terms, std::span<const Range> factor_ranges);

/// Share of a causal mask's (query, key) pairs that are visible inside the ranges; 1 without a mask.
double visible_share(const Operator& op, std::span<const Range> factor_ranges);

/// Cuts `box` into pieces, so that each piece is inside or outside every box that for_each_box(visit) passes
/// to visit().
template <class ForEachBox>
std::vector<Box> cut_at_edges(const Box& box, ForEachBox for_each_box) {
  std::vector<Box> pieces{box};
  std::vector<std::int64_t> cuts;
  for (std::size_t i = 0; i < box.dims(); ++i) {
    cuts.assign(1, box[i].end);
    for_each_box([&](const Box& edges) {
      for (const std::int64_t at : {edges[i].begin, edges[i].end}) {
        if (at > box[i].begin && at < box[i].end) cuts.push_back(at);
      }
    });
    if (cuts.size() == 1) continue;
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Box> finer;
    finer.reserve(pieces.size() * cuts.size());
    for (const Box& piece : pieces) {
      std::int64_t begin = box[i].begin;
      for (const std::int64_t end : cuts) {
        finer.push_back(piece);
        finer.back()[i] = {begin, end};
        begin = end;
      }
    }
    pieces = std::move(finer);
  }
  return pieces;
}

/// The ranges of the unsplit operator: [0, size) per factor.
std::vector<Range> whole_ranges(const Operator& op);

}  // namespace pipesim

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/box.h"

namespace pipesim {

/// The smallest box around `boxes`, of which there is at least one.
[[nodiscard]] Box bounds_of(const std::vector<Box>& boxes);
/// Whether no two of the boxes meet.
[[nodiscard]] bool disjoint(const std::vector<Box>& boxes);

/// Finds those boxes of an ascending list that may meet another box, by their first dimension. Lists of large
/// machines have thousands.
class AscendingBoxes {
 public:
  /// box_of(i): the box at i < count. Short lists get no index: all of them may meet.
  template <class BoxOf>
  AscendingBoxes(std::size_t count, BoxOf box_of) : size_(count) {
    constexpr std::size_t kShort = 16;
    for (std::size_t i = 0; i < count && count > kShort; ++i) add(box_of(i));
  }
  struct Stretch {
    std::size_t begin = 0, end = 0;
  };
  /// Returns the stretch of the list in which all boxes that meet `box` stand.
  [[nodiscard]] Stretch near(const Box& box) const;

 private:
  void add(const Box& box);
  std::size_t size_;
  std::vector<std::int64_t> begins_, furthest_;  // by box: its begin, and the furthest end so far
};

/// The dimension along which the boxes are equal, disjoint slices of `whole`; none otherwise.
[[nodiscard]] std::optional<std::size_t> slice_dim(std::vector<Box> boxes, const Box& whole);
/// Returns n equal pieces along the first of `dims` that n divides; nothing if n divides none.
[[nodiscard]] std::optional<std::vector<Box>> pieces_of(const Box& box, std::size_t n,
                                                        const std::vector<std::size_t>& dims);
/// Whether every device gets an equal share of what every other one holds. By device: the parts of `whole`
/// that it holds and wants.
[[nodiscard]] bool exchanges_equal_shares(const std::vector<Box>& held, const std::vector<Box>& wants,
                                          const Box& whole);

}  // namespace pipesim

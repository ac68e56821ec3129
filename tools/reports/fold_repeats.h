#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pipesim {

/// A part of a list: `period` elements, and the same once more for as long as it lasts.
struct RepeatedPart {
  std::size_t begin = 0, end = 0;  ///< [begin, end)
  std::size_t period = 1;          ///< divides end - begin
  [[nodiscard]] std::size_t repeats() const { return (end - begin) / period - 1; }
  bool operator==(const RepeatedPart&) const = default;
};

/// Cuts a list into parts, in order and without gaps, so that showing every part once shortens it: from the
/// left, at each place the period of at most `most_period` by which most is left out, the shortest of equal
/// ones. At least `least` elements are left out of a part that repeats. Equal numbers: elements that are
/// alike.
std::vector<RepeatedPart> fold_repeats(std::span<const int> alike, std::size_t most_period,
                                       std::size_t least);

}  // namespace pipesim

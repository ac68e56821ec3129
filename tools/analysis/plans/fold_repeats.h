#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pipesim {

/// A part of a list: `period` elements, and repetitions of them.
struct RepeatedPart {
  std::size_t begin = 0, end = 0;  ///< [begin, end)
  std::size_t period = 1;          ///< divides end - begin
  [[nodiscard]] std::size_t repeats() const { return (end - begin) / period - 1; }
  bool operator==(const RepeatedPart&) const = default;
};

/// Cuts a list into parts, in order and without gaps, so that showing one period of each part shortens it.
/// From left to right, each part gets the period of at most `most_period` that leaves out most elements;
/// among equals, the shortest. A part repeats only if at least `least` elements are left out. Equal numbers
/// mean elements that are alike.
std::vector<RepeatedPart> fold_repeats(std::span<const int> alike, std::size_t most_period,
                                       std::size_t least);

}  // namespace pipesim

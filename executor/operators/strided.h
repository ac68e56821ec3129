#pragma once

#include <array>
#include <cstdint>

#include "executor/operators/device_code.h"

namespace pipesim {

/// Where the elements of a shape, counted row-major, lie in a tensor: a step in elements for each dim.
/// Built from the outermost dim to the innermost; dims of one element are left out, and neighbours that one
/// step walks through are joined, so that finding an element takes as few divisions as it can.
struct Strided {
  std::array<std::int64_t, 8> lengths{}, steps{};
  std::int32_t dims = 0;

  constexpr void add(std::int64_t length, std::int64_t step) {
    if (length == 1) return;
    if (dims > 0 && steps[last()] == length * step) {
      lengths[last()] *= length;
      steps[last()] = step;
      return;
    }
    ++dims;
    lengths[last()] = length;
    steps[last()] = step;
  }

  /// The place of element i, 0 ≤ i < elements().
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t at(std::int64_t i) const {
    std::int64_t place = 0;
    for (std::int32_t d = dims - 1; d > 0; --d) {
      const auto dim = static_cast<std::size_t>(d);
      place += i % lengths[dim] * steps[dim];
      i /= lengths[dim];
    }
    return place + i * steps[0];
  }
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) n *= lengths[d];
    return n;
  }
  /// The step of the innermost dimension; 0 where there is none.
  [[nodiscard]] constexpr std::int64_t last_step() const { return dims == 0 ? 0 : steps[last()]; }

 private:
  [[nodiscard]] constexpr std::size_t last() const { return static_cast<std::size_t>(dims - 1); }
};

}  // namespace pipesim

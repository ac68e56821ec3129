#pragma once

#include <array>
#include <cstdint>

namespace pipesim {

/// The order in which kernels add up the terms of a sum. Orders other than the first show the effect of
/// rounding, because a plan that splits a sum adds it up in yet another order. With them, 16-bit results are
/// also rounded differently.
enum class SumOrder : std::uint8_t { Ascending, Descending, SecondHalfFirst, OddFirst };
inline constexpr std::array other_sum_orders{SumOrder::Descending, SumOrder::SecondHalfFirst,
                                             SumOrder::OddFirst};

/// Which of n terms comes at place i, 0 ≤ i < n.
constexpr std::int64_t term_at(SumOrder order, std::int64_t i, std::int64_t n) {
  switch (order) {
    case SumOrder::Ascending:
      return i;
    case SumOrder::Descending:
      return n - 1 - i;
    case SumOrder::SecondHalfFirst:
      return (i + n / 2) % n;
    case SumOrder::OddFirst:
      return i < n / 2 ? 2 * i + 1 : 2 * (i - n / 2);
  }
  return i;
}

}  // namespace pipesim

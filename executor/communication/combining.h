#pragma once

#include <type_traits>

namespace pipesim {

/// Integers wrap around.
template <class T>
constexpr T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)));
  } else {
    return a + b;
  }
}

/// The maximum is NaN when a or b is NaN.
template <class T>
constexpr T max_of(T a, T b) {
  const bool lost = b != b;  // NOLINT(misc-redundant-expression): what std::isnan says, on devices too
  return b > a || lost ? b : a;
}

}  // namespace pipesim

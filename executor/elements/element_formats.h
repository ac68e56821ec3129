#pragma once

#include <cstdint>

#include "executor/elements/small_floats.h"

namespace pipesim {

/// How elements of a type are stored in memory (Stored), and the type in which they are computed.
template <class Number>
struct PlainElement {
  using Stored = Number;
  using Computed = Number;
  static constexpr Number load(Number n) { return n; }
  template <class From>
  static constexpr Number store(From n) {
    return static_cast<Number>(n);
  }
};

template <float (*load_bits)(std::uint16_t), std::uint16_t (*store_bits)(float)>
struct SmallFloatElement {
  using Stored = std::uint16_t;
  using Computed = float;
  static constexpr float load(Stored bits) { return load_bits(bits); }
  template <class From>
  static constexpr Stored store(From n) {
    return store_bits(static_cast<float>(n));
  }
};
using BFloat16Element = SmallFloatElement<from_bfloat16, to_bfloat16>;
using Float16Element = SmallFloatElement<from_float16, to_float16>;

}  // namespace pipesim

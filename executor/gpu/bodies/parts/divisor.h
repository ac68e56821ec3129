#pragma once

#include <bit>
#include <cstdint>

#include "executor/operators/device_code.h"

namespace pipesim::gpu {

/// Divides numbers 0 ≤ i < `below` by the same divisor > 0. Up to 2³¹ it uses a product and a shift (Granlund
/// and Montgomery, "Division by invariant integers using multiplication", 1994), because a division takes
/// devices dozens of instructions.
struct Divisor {
  Divisor() = default;
  Divisor(std::int64_t by, std::int64_t below) : divisor(by) {
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    if (by > limit || below > limit) return;
    const auto d = static_cast<std::uint64_t>(by);
    shift = 31 + static_cast<std::int32_t>(std::bit_width(d - 1));
    factor = ((std::uint64_t{1} << shift) + d - 1) / d;
  }
  [[nodiscard]] PIPESIM_DEVICE std::int64_t quotient(std::int64_t i) const {
    if (factor == 0) return i / divisor;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) * factor >> shift);
  }

  std::int64_t divisor = 1;
  std::uint64_t factor = 0;  ///< 0: numbers are too large
  std::int32_t shift = 0;
};

}  // namespace pipesim::gpu

#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/elements/small_floats.h"
#include "executor/operators/device_code.h"

namespace pipesim::gpu {

/// How floating-point elements lie in a device's memory. Computations are in float32, and sums of many
/// elements in float64.
enum class Stored : std::int32_t { Float32, BFloat16, Float16, Float64 };

constexpr std::size_t bytes_of(Stored stored, std::int64_t elements) {
  const std::size_t width = stored == Stored::Float64 ? 8 : stored == Stored::Float32 ? 4 : 2;
  return width * static_cast<std::size_t>(elements);
}

/// A tensor of any floating-point type in a device's memory. The branch is the same for all threads, and
/// neighbouring threads read neighbouring elements, so that it costs little next to reading memory.
struct Floats {
  void* memory = nullptr;
  Stored stored = Stored::Float32;

  [[nodiscard]] PIPESIM_DEVICE bool present() const { return memory != nullptr; }
  [[nodiscard]] PIPESIM_DEVICE float operator[](std::int64_t i) const {
    switch (stored) {
      case Stored::Float32:
        return static_cast<const float*>(memory)[i];
      case Stored::BFloat16:
        return from_bfloat16(static_cast<const std::uint16_t*>(memory)[i]);
      case Stored::Float16:
        return from_float16(static_cast<const std::uint16_t*>(memory)[i]);
      default:
        return static_cast<float>(static_cast<const double*>(memory)[i]);
    }
  }
  /// The elements from `first` on.
  [[nodiscard]] PIPESIM_DEVICE Floats from(std::int64_t first) const {
    const std::int64_t width = stored == Stored::Float64 ? 8 : stored == Stored::Float32 ? 4 : 2;
    return {static_cast<std::byte*>(memory) + first * width, stored};
  }
  PIPESIM_DEVICE void set(std::int64_t i, float value) const {
    switch (stored) {
      case Stored::Float32:
        static_cast<float*>(memory)[i] = value;
        return;
      case Stored::BFloat16:
        static_cast<std::uint16_t*>(memory)[i] = to_bfloat16(value);
        return;
      case Stored::Float16:
        static_cast<std::uint16_t*>(memory)[i] = to_float16(value);
        return;
      default:
        static_cast<double*>(memory)[i] = static_cast<double>(value);
    }
  }
};

}  // namespace pipesim::gpu

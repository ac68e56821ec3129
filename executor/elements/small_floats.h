#pragma once

#include <bit>
#include <cstdint>

namespace pipesim {

// Conversions between float32 and the bits of 16-bit types. Exact upwards; downwards to the nearest, ties to
// even, too large ones to infinity. NaNs stay NaNs, quiet and without their payload downwards.

constexpr float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = 0x7fc0U | ((bits >> 16) & 0x8000U);
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

constexpr float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000U) << 16;
  const std::uint32_t magnitude = (static_cast<std::uint32_t>(bits) & 0x7fffU) << 13;
  // The exponents' biases are 127 and 15; the product is right for subnormal numbers too.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t not_finite = magnitude | 0x7f800000U;
  const std::uint32_t value = magnitude >= 0x0f800000U ? not_finite : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | value);
}

constexpr std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
  // Neighbours of 0.5 are as far apart as float16's subnormal numbers, so adding it rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  if (magnitude >= 0x477ff000U) result = 0x7c00U;  // from 65520 on
  if (magnitude > 0x7f800000U) result = 0x7e00U;
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace pipesim

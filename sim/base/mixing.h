#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim {

/// The number that splitmix64 returns at state x (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014). Every bit of the result depends on every bit of x.
constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// FNV-1a.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

}  // namespace pipesim

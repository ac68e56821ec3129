#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "executor/step_context.h"

namespace pipesim::cpu {

/// Which elements dropout keeps, by their numbers in the global batch alone: every split, copy and number of
/// microbatches agrees, and backward finds the same again.
class DropoutMask {
 public:
  DropoutMask(std::string_view op, const StepContext& step, double rate)
      : key_(mixed(mixed(static_cast<std::uint64_t>(step.step) ^ mixed(step.seed)) ^ hash_of(op))),
        dropped_(static_cast<std::uint64_t>(std::ldexp(rate, kBits))),
        scale_(rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0F) {}

  /// x / (1 − rate), or 0 where the element is dropped.
  [[nodiscard]] float operator()(std::uint64_t element, float x) const {
    return mixed(element ^ key_) >> (64 - kBits) >= dropped_ ? x * scale_ : 0.0F;
  }

 private:
  static constexpr int kBits = 53;  // of a draw

  /// The mixing function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
  /// generators", 2014).
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }

  /// FNV-1a.
  static std::uint64_t hash_of(std::string_view name) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    return hash;
  }

  std::uint64_t key_, dropped_;
  float scale_;
};

}  // namespace pipesim::cpu

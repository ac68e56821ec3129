#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "executor/step_context.h"
#include "sim/base/mixing.h"

namespace pipesim::cpu {

/// Which elements dropout keeps, by their numbers in the global batch alone: every split, copy and number of
/// microbatches agrees, and backward finds the same again.
class DropoutMask {
 public:
  DropoutMask(std::string_view op, const StepContext& step, double rate)
      : key_(mixed_bits(mixed_bits(static_cast<std::uint64_t>(step.step) ^ mixed_bits(step.seed)) ^
                        hash_of(op))),
        dropped_(static_cast<std::uint64_t>(std::ldexp(rate, kBits))),
        scale_(rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0F) {}

  /// x / (1 − rate), or 0 where the element is dropped.
  [[nodiscard]] float operator()(std::uint64_t element, float x) const {
    return mixed_bits(element ^ key_) >> (64 - kBits) >= dropped_ ? x * scale_ : 0.0F;
  }

 private:
  static constexpr int kBits = 53;  // of a draw

  std::uint64_t key_, dropped_;
  float scale_;
};

}  // namespace pipesim::cpu

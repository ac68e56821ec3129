#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "executor/operators/attributes.h"
#include "executor/operators/device_code.h"
#include "executor/operators/step_context.h"
#include "executor/operators/strided.h"
#include "models/operator.h"
#include "sim/base/mixing.h"

namespace pipesim {

/// How an operator drops elements in all steps: what DropoutMask needs beside the step.
struct DropoutRate {
  static constexpr int kBits = 53;  ///< of a draw

  DropoutRate(std::string_view op, double rate)
      : hash(hash_of(op)),
        dropped(static_cast<std::uint64_t>(std::ldexp(rate, kBits))),
        scale(rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0F) {}

  std::uint64_t hash, dropped;  ///< draws below `dropped` drop their element
  float scale;
};

/// Which elements dropout keeps, by their numbers in the global batch alone: every split, copy and number of
/// microbatches agrees, and backward finds the same again.
class DropoutMask {
 public:
  DropoutMask(std::string_view op, const StepContext& step, double rate)
      : DropoutMask(DropoutRate(op, rate), step.seed, step.step) {}
  PIPESIM_DEVICE DropoutMask(const DropoutRate& rate, std::uint64_t seed, std::int64_t step)
      : key_(mixed_bits(mixed_bits(static_cast<std::uint64_t>(step) ^ mixed_bits(seed)) ^ rate.hash)),
        dropped_(rate.dropped),
        scale_(rate.scale) {}

  /// x / (1 − rate), or 0 where the element is dropped.
  [[nodiscard]] PIPESIM_DEVICE float operator()(std::uint64_t element, float x) const {
    return mixed_bits(element ^ key_) >> (64 - DropoutRate::kBits) >= dropped_ ? x * scale_ : 0.0F;
  }

 private:
  std::uint64_t key_, dropped_;
  float scale_;
};

/// The numbers in the global batch of the elements of a box of a tensor whose first dim is the samples.
struct NumbersInBatch {
  NumbersInBatch(const TensorUse& use, const Box& box, std::int64_t microbatch) {
    std::int64_t size = whole_volume(use, 0, box.dims());
    first = microbatch * size;
    for (std::size_t i = 0; i < box.dims(); ++i) {
      size /= use.dims[i].extent;
      first += box[i].begin * size;
      from_first.add(box[i].length(), size);
    }
  }
  [[nodiscard]] PIPESIM_DEVICE std::uint64_t operator()(std::int64_t i) const {
    return static_cast<std::uint64_t>(first + from_first.at(i));
  }

  std::int64_t first = 0;
  Strided from_first;
};

}  // namespace pipesim

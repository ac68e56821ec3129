#include <cmath>

#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

/// The mixing function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// FNV-1a.
std::uint64_t hash_of_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

/// values: x, y. Whether an element is kept depends on its place in the global batch alone, so every split,
/// copy and number of microbatches agrees, and backward finds the same mask again.
class Dropout : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    mask(call, call.values[0].floats, call.values[1].floats);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    mask(call, call.gradients[1].floats, call.gradients[0].floats);
  }

 private:
  static std::uint64_t key_of(const ShardCall& call) {
    const std::uint64_t step = mixed(static_cast<std::uint64_t>(call.step.step) ^ mixed(call.step.seed));
    return mixed(step ^ hash_of_name(call.op.name));
  }

  /// Of row `row` of the shard's box: the number of its first element in the global batch.
  static std::uint64_t first_element(const ShardCall& call, const Box& box, std::int64_t row) {
    const auto& dims = call.op.uses[0].dims;
    std::int64_t number = 0, size = dims.back().extent;
    for (std::size_t i = box.dims() - 1; i-- > 0;) {
      number += (box[i].begin + row % box[i].length()) * size;
      row /= box[i].length();
      size *= dims[i].extent;
    }
    return static_cast<std::uint64_t>(number + box[box.dims() - 1].begin + call.step.microbatch * size);
  }

  static void mask(const ShardCall& call, const float* x, float* y) {
    const Box box = box_of(call, 0);
    const double rate = real_of(call.op, "rate");
    const std::uint64_t key = key_of(call);
    const auto dropped = static_cast<std::uint64_t>(std::ldexp(rate, 53));  // of 2⁵³ draws
    const float scale = rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0F;
    const std::int64_t columns = box[box.dims() - 1].length(), rows = box.elements() / columns;
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const std::uint64_t first = first_element(call, box, row);
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::uint64_t draw = mixed((first + static_cast<std::uint64_t>(j)) ^ key) >> 11U;
        y[j] = draw >= dropped ? x[j] * scale : 0.0F;
      }
    }
  }
};

}  // namespace

std::vector<KernelEntry> dropout_kernels() {
  static const Dropout dropout;
  return {{"dropout", &dropout}};
}

}  // namespace pipesim::cpu

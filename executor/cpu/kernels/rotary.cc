#include "executor/operators/rotary.h"

#include <algorithm>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// Rotary position embedding (Su et al., 2021) over halves of what is rotated, n elements: elements i and
/// i + n/2 of the last dim turn by s · base^(−2i/n), s being the position in the whole sequence. values:
/// x[b, s, …, d], y.
class Rotary : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    turn(RotaryShape(call.op, call.ranges), call.values[0].floats, call.values[1].floats, 1);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    turn(RotaryShape(call.op, call.ranges), call.gradients[1].floats, call.gradients[0].floats, -1);
  }

 private:
  static void turn(const RotaryShape& shape, const float* x, float* y, float direction) {
    const std::int64_t d = shape.d, turned = shape.turned, half = turned / 2;
    std::vector<float> cosine(static_cast<std::size_t>(half)), sine(cosine.size());
    for (std::int64_t s = 0; s < shape.positions; ++s) {
      fill_angles(shape.order.position(shape.first_position + s), turned, direction, cosine, sine);
      for (std::int64_t b = 0; b < shape.samples; ++b) {
        for (std::int64_t row = 0; row < shape.heads; ++row) {
          const std::int64_t first = ((b * shape.positions + s) * shape.heads + row) * d;
          turn_row(x + first, y + first, half, cosine, sine);
          std::copy(x + first + turned, x + first + d, y + first + turned);
        }
      }
    }
  }

  static void fill_angles(std::int64_t position, std::int64_t turned, float direction,
                          std::vector<float>& cosine, std::vector<float>& sine) {
    for (std::size_t i = 0; i < cosine.size(); ++i) {
      const RotaryAngle angle = rotary_angle(position, static_cast<std::int64_t>(i), turned);
      cosine[i] = angle.cosine;
      sine[i] = direction * angle.sine;
    }
  }

  static void turn_row(const float* x, float* y, std::int64_t half, const std::vector<float>& cosine,
                       const std::vector<float>& sine) {
    for (std::int64_t i = 0; i < half; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float first = x[i], second = x[i + half];
      y[i] = first * cosine[at] - second * sine[at];
      y[i + half] = second * cosine[at] + first * sine[at];
    }
  }
};

}  // namespace

std::vector<KernelEntry> rotary_kernels() {
  static const Rotary rotary;
  return {{"rotary", &rotary}};
}

}  // namespace pipesim::cpu

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// values: x[b, s, c], w[c, k], maybe bias[c], y[b, s, c]; channels may have several dimensions.
class CausalConvolution : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Taps taps(call);
    const Piece& y = call.values[taps.result];
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      const double sum = taps.sum(i);
      y.floats[i] = static_cast<float>(taps.silu ? sum * sigmoid(sum) : sum);
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Taps taps(call);
    std::vector<std::vector<double>> sums;
    for (std::size_t use = 0; use < taps.result; ++use)
      sums.emplace_back(static_cast<std::size_t>(box_of(call, use).elements()), 0.0);
    const float* dy = call.gradients[taps.result].floats;
    for_each_term(taps.samples, call.step.sums, [&](std::int64_t sample) {
      const std::int64_t rows = taps.length * taps.channels;
      for (std::int64_t i = sample * rows; i < (sample + 1) * rows; ++i) {
        auto slope = static_cast<double>(dy[i]);
        if (taps.silu) {
          const double sum = taps.sum(i), share = sigmoid(sum);
          slope *= share * (1 + sum * (1 - share));
        }
        const std::int64_t channel = i % taps.channels;
        taps.visit(i, [&](std::int64_t from, std::int64_t tap) {
          sums[0][static_cast<std::size_t>(from)] += slope * taps.w(channel, tap);
          sums[1][static_cast<std::size_t>(channel * taps.kernel + tap)] += slope * taps.x(from);
        });
        if (taps.bias) sums[2][static_cast<std::size_t>(channel)] += slope;
      }
    });
    for (std::size_t use = 0; use < taps.result; ++use) {
      if (!call.gradients[use].present()) continue;
      std::ranges::transform(sums[use], call.gradients[use].floats,
                             [](double sum) { return static_cast<float>(sum); });
    }
  }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  /// Reads a shard's operands.
  struct Taps {
    explicit Taps(const ShardCall& call_)
        : call(call_),
          kernel(integer_of(call_.op, "kernel")),
          bias(integer_of(call_.op, "bias") != 0),
          silu(integer_of(call_.op, "silu") != 0),
          result(bias ? 3 : 2) {
      const Box x_box = box_of(call, 0), y_box = box_of(call, result);
      samples = y_box[0].length(), length = y_box[1].length(), first = y_box[1].begin;
      read = x_box[1].length(), first_read = x_box[1].begin;
      channels = y_box.elements() / std::max<std::int64_t>(samples * length, 1);
    }
    [[nodiscard]] double x(std::int64_t i) const { return static_cast<double>(call.values[0].floats[i]); }
    [[nodiscard]] double w(std::int64_t channel, std::int64_t tap) const {
      return static_cast<double>(call.values[1].floats[channel * kernel + tap]);
    }
    /// Calls visit(element of x, tap) for all that result i sees; the last tap is of its own position.
    template <class Visit>
    void visit(std::int64_t i, Visit visit) const {
      const std::int64_t channel = i % channels, row = i / channels, position = first + row % length;
      const std::int64_t rows = row / length * read - first_read;
      for (std::int64_t tap = std::max<std::int64_t>(0, kernel - 1 - position); tap < kernel; ++tap)
        visit((rows + position - (kernel - 1 - tap)) * channels + channel, tap);
    }
    [[nodiscard]] double sum(std::int64_t i) const {
      const std::int64_t channel = i % channels;
      double total = bias ? static_cast<double>(call.values[2].floats[channel]) : 0;
      visit(i, [&](std::int64_t from, std::int64_t tap) { total += w(channel, tap) * x(from); });
      return total;
    }
    const ShardCall& call;
    std::int64_t kernel;
    bool bias, silu;
    std::size_t result;                                            ///< the use that is the result
    std::int64_t samples = 0, length = 0, channels = 0, read = 0;  ///< positions of y and of x
    std::int64_t first = 0, first_read = 0;                        ///< in the whole sequence
  };
};

}  // namespace

std::vector<KernelEntry> causal_convolution_kernels() {
  static const CausalConvolution causal_convolution;
  return {{"causal_convolution", &causal_convolution}};
}

}  // namespace pipesim::cpu

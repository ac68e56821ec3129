#include <cmath>
#include <vector>

#include "executor/cpu/kernels/scans/scan_parts.h"

namespace pipesim::cpu {
namespace {

/// values: x[b, s, d], delta[b, s, d], b[b, s, n], c[b, s, n], a[d, n], skip[d], y[b, s, d]. For each state:
/// h_t = exp(delta_t · A) · h_{t−1} + delta_t · b_t · x_t, A = −exp(a); y_t = Σ_n c_t · h_t + skip · x_t. The
/// skip is added by the shard that has it.
class SelectiveScan : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Scan scan(call);
    const Piece& y = call.values[6];
    const float* skip = call.values[5].floats;
    for (std::int64_t sample = 0; sample < scan.samples; ++sample) {
      for (std::int64_t channel = 0; channel < scan.channels; ++channel) {
        const std::vector<double> states = scan.states(sample, channel);
        for (std::int64_t t = 0; t < scan.length; ++t) {
          const std::int64_t at = scan.at(sample, t, channel);
          double sum = skip == nullptr ? 0 : static_cast<double>(skip[channel]) * scan.x(at);
          for_each_term(scan.width, call.step.sums, [&](std::int64_t n) {
            sum += scan.c(scan.of_state(sample, t, n)) * states[scan.state(t + 1, n)];
          });
          y.floats[at] = static_cast<float>(sum);
        }
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Scan scan(call);
    OperandGradients sums(call, 6);
    for_each_term(scan.samples, call.step.sums, [&](std::int64_t sample) {
      for (std::int64_t channel = 0; channel < scan.channels; ++channel)
        send_back(call, scan, sample, channel, sums);
    });
    sums.store();
  }

 private:
  /// Reads a shard's operands.
  struct Scan {
    explicit Scan(const ShardCall& call_) : call(call_) {
      const Box x_box = box_of(call, 0), b_box = box_of(call, 2);
      samples = x_box[0].length(), length = x_box[1].length(), channels = x_box[2].length();
      width = b_box[2].length();
    }
    [[nodiscard]] std::int64_t at(std::int64_t sample, std::int64_t t, std::int64_t channel) const {
      return (sample * length + t) * channels + channel;
    }
    [[nodiscard]] std::int64_t of_state(std::int64_t sample, std::int64_t t, std::int64_t n) const {
      return (sample * length + t) * width + n;
    }
    [[nodiscard]] std::size_t state(std::int64_t t, std::int64_t n) const {
      return static_cast<std::size_t>(t * width + n);
    }
    [[nodiscard]] double value(std::size_t use, std::int64_t i) const { return value_of(call, use, i); }
    [[nodiscard]] double x(std::int64_t i) const { return value(0, i); }
    [[nodiscard]] double delta(std::int64_t i) const { return value(1, i); }
    [[nodiscard]] double b(std::int64_t i) const { return value(2, i); }
    [[nodiscard]] double c(std::int64_t i) const { return value(3, i); }
    [[nodiscard]] double rate(std::int64_t channel, std::int64_t n) const {
      return -std::exp(value(4, channel * width + n));
    }
    /// h_0 = 0, h_1, …: [length + 1, width].
    [[nodiscard]] std::vector<double> states(std::int64_t sample, std::int64_t channel) const {
      std::vector<double> h(static_cast<std::size_t>((length + 1) * width), 0.0);
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t i = at(sample, t, channel);
        for (std::int64_t n = 0; n < width; ++n) {
          h[state(t + 1, n)] = std::exp(delta(i) * rate(channel, n)) * h[state(t, n)] +
                               delta(i) * b(of_state(sample, t, n)) * x(i);
        }
      }
      return h;
    }
    const ShardCall& call;
    std::int64_t samples = 0, length = 0, channels = 0, width = 0;
  };

  static void send_back(const ShardCall& call, const Scan& scan, std::int64_t sample, std::int64_t channel,
                        OperandGradients& sums) {
    const std::vector<double> h = scan.states(sample, channel);
    std::vector<double> dh(static_cast<std::size_t>(scan.width), 0.0);
    const float* skip = call.values[5].floats;
    for (std::int64_t t = scan.length; t-- > 0;) {
      const std::int64_t i = scan.at(sample, t, channel);
      const auto dy = static_cast<double>(call.gradients[6].floats[i]);
      double dx = 0, ddelta = 0;
      for (std::int64_t n = 0; n < scan.width; ++n) {
        const std::int64_t j = scan.of_state(sample, t, n);
        double& gradient = dh[static_cast<std::size_t>(n)];
        gradient += dy * scan.c(j);
        sums.add(3, j, dy * h[scan.state(t + 1, n)]);
        const double rate = scan.rate(channel, n), kept = std::exp(scan.delta(i) * rate);
        const double of_decay = gradient * h[scan.state(t, n)] * kept;  // of delta · A
        dx += gradient * scan.delta(i) * scan.b(j);
        ddelta += of_decay * rate + gradient * scan.b(j) * scan.x(i);
        sums.add(2, j, gradient * scan.delta(i) * scan.x(i));
        sums.add(4, channel * scan.width + n, of_decay * scan.delta(i) * rate);  // A is its own slope in a
        gradient *= kept;
      }
      if (skip != nullptr) {
        dx += dy * static_cast<double>(skip[channel]);
        sums.add(5, channel, dy * scan.x(i));
      }
      sums.add(0, i, dx);
      sums.add(1, i, ddelta);
    }
  }
};

}  // namespace

std::vector<KernelEntry> selective_scan_kernels() {
  static const SelectiveScan selective_scan;
  return {{"selective_scan", &selective_scan}};
}

}  // namespace pipesim::cpu

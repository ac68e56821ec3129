#include <cmath>
#include <vector>

#include "executor/cpu/kernels/scans/scan_parts.h"

namespace pipesim::cpu {
namespace {

/// values: x[b, s, g, r, p], step[b, s, g, r], b[b, s, g, n], c[b, s, g, n], a[g, r], step_bias[g, r],
/// skip[g, r], y[b, s, g, r, p]. For each head, with states h[n, p] and Δ_t = softplus(step_t + step_bias):
/// h_t = exp(−Δ_t · exp(a)) · h_{t−1} + Δ_t · b_t · x_tᵀ; y_t = hᵀ_t · c_t + skip · x_t. y is an addend over
/// n; the skip is added by the shard that has it.
class StateSpaceScan : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    for (std::int64_t head = 0; head < Head::count(call); ++head) {
      const Head scan(call, head);
      std::vector<double> h(static_cast<std::size_t>(scan.n * scan.p), 0.0);
      for (std::int64_t t = 0; t < scan.s; ++t) {
        scan.advance(t, h);
        scan.write_result(t, h);
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    OperandGradients sums(call, y);
    for_each_term(Head::count(call), call.step.sums,
                  [&](std::int64_t head) { send_back(Head(call, head), sums); });
    sums.store();
  }

 private:
  enum Use : std::size_t { x, step, b, c, a, step_bias, skip, y };

  /// A head of a sample, and where its operands are.
  struct Head {
    Head(const ShardCall& call_, std::int64_t head) : call(call_) {
      const Box box = box_of(call, x);
      s = box[1].length(), groups = box[2].length(), members = box[3].length(), p = box[4].length();
      n = box_of(call, b)[3].length();
      of_weights = head % (groups * members), group = of_weights / members,
      sample = head / (groups * members);
    }
    static std::int64_t count(const ShardCall& call) {
      return volume(box_of(call, x), 0, 1) * volume(box_of(call, x), 2, 4);
    }
    [[nodiscard]] std::int64_t at(std::int64_t t) const {
      return (sample * s + t) * groups * members + of_weights;
    }
    [[nodiscard]] std::int64_t of_states(std::int64_t t) const {
      return ((sample * s + t) * groups + group) * n;
    }
    [[nodiscard]] double value(std::size_t use, std::int64_t i) const { return value_of(call, use, i); }
    [[nodiscard]] double rate() const { return -std::exp(value(a, of_weights)); }
    /// The step before softplus.
    [[nodiscard]] double raw_step(std::int64_t t) const {
      return value(step, at(t)) + value(step_bias, of_weights);
    }
    [[nodiscard]] bool skips() const { return call.values[skip].present(); }

    void advance(std::int64_t t, std::vector<double>& h) const {
      const double delta = positive_step(raw_step(t)), kept = std::exp(delta * rate());
      for (std::int64_t i = 0; i < n; ++i) {
        const double scaled = delta * value(b, of_states(t) + i);
        double* row = h.data() + i * p;
        for (std::int64_t j = 0; j < p; ++j) row[j] = kept * row[j] + scaled * value(x, at(t) * p + j);
      }
    }

    void write_result(std::int64_t t, const std::vector<double>& h) const {
      for (std::int64_t j = 0; j < p; ++j) {
        double sum = skips() ? value(skip, of_weights) * value(x, at(t) * p + j) : 0;
        for_each_term(n, call.step.sums, [&](std::int64_t i) {
          sum += value(c, of_states(t) + i) * h[static_cast<std::size_t>(i * p + j)];
        });
        call.values[y].floats[at(t) * p + j] = static_cast<float>(sum);
      }
    }

    const ShardCall& call;
    std::int64_t s = 0, groups = 0, members = 0, p = 0, n = 0;
    std::int64_t sample = 0, group = 0, of_weights = 0;
  };

  static void send_back(const Head& scan, OperandGradients& sums) {
    std::vector<double> dh(static_cast<std::size_t>(scan.n * scan.p), 0.0);
    walk_back(
        scan.s, scan.n * scan.p, [&](std::int64_t t, std::vector<double>& h) { scan.advance(t, h); },
        [&](std::int64_t t, const std::vector<double>& before, const std::vector<double>& after) {
          send_back(scan, t, before, after, dh, sums);
        });
  }

  /// On entry dh is the gradient of h_t that comes from later positions, on return that of h_{t−1}.
  static void send_back(const Head& scan, std::int64_t t, const std::vector<double>& before,
                        const std::vector<double>& after, std::vector<double>& dh, OperandGradients& sums) {
    const double raw = scan.raw_step(t), delta = positive_step(raw), rate = scan.rate(),
                 kept = std::exp(delta * rate);
    double of_decay = 0, of_delta = 0;  // of delta · rate, and of delta beside it
    for (std::int64_t i = 0; i < scan.n; ++i) {
      const std::int64_t state = scan.of_states(t) + i;
      double of_b = 0, of_c = 0;
      for (std::int64_t j = 0; j < scan.p; ++j) {
        const auto at = static_cast<std::size_t>(i * scan.p + j);
        const std::int64_t element = scan.at(t) * scan.p + j;
        const auto dy = static_cast<double>(scan.call.gradients[y].floats[element]);
        dh[at] += dy * scan.value(c, state);
        of_c += dy * after[at];
        of_b += dh[at] * scan.value(x, element);
        sums.add(x, element, delta * scan.value(b, state) * dh[at]);
        of_decay += dh[at] * before[at] * kept;
        dh[at] *= kept;
      }
      sums.add(c, state, of_c);
      sums.add(b, state, delta * of_b);
      of_delta += scan.value(b, state) * of_b;
    }
    const double of_raw = (of_delta + of_decay * rate) * slope_of_step(raw);
    sums.add(step, scan.at(t), of_raw);
    sums.add(step_bias, scan.of_weights, of_raw);
    sums.add(a, scan.of_weights, of_decay * delta * rate);  // the rate is its own slope in a
    if (scan.skips()) send_back_skip(scan, t, sums);
  }

  static void send_back_skip(const Head& scan, std::int64_t t, OperandGradients& sums) {
    for (std::int64_t j = 0; j < scan.p; ++j) {
      const std::int64_t element = scan.at(t) * scan.p + j;
      const auto dy = static_cast<double>(scan.call.gradients[y].floats[element]);
      sums.add(x, element, dy * scan.value(skip, scan.of_weights));
      sums.add(skip, scan.of_weights, dy * scan.value(x, element));
    }
  }
};

}  // namespace

std::vector<KernelEntry> state_space_scan_kernels() {
  static const StateSpaceScan scan;
  return {{"state_space_scan", &scan}};
}

}  // namespace pipesim::cpu

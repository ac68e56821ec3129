#include "executor/operators/bahdanau.h"

#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// values: pq, pk, val, v, ctx, see BahdanauSizes. Statistics: forward the scores [n, s], per sample the
/// largest and Σ exp; backward Σ α·dα per sample.
class BahdanauAttention : public Kernel {
 public:
  /// α, [n, s].
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(volume(pipesim::box_of(op.uses[1], op, ranges), 0, 2));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const BahdanauSizes z(call.op, call.ranges);
    if (segment == 0) return score(call, z);
    for (std::int64_t n = 0; n < z.n; ++n) {
      const double* scores = call.statistics[0].data() + n * z.s;
      const auto sample = static_cast<std::size_t>(n);
      if (segment == 1) {
        call.statistics[1][sample] = *std::max_element(scores, scores + z.s);
      } else if (segment == 2) {
        double& sum = call.statistics[2][sample] = 0;
        for_each_term(z.s, call.step.sums,
                      [&](std::int64_t s) { sum += std::exp(scores[s] - call.statistics[1][sample]); });
      } else {
        average(call, z, n);
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const BahdanauSizes z(call.op, call.ranges);
    if (segment == 0) {
      for (std::int64_t n = 0; n < z.n; ++n) {
        double& sum = call.statistics[0][static_cast<std::size_t>(n)] = 0;
        for_each_term(z.s, call.step.sums, [&](std::int64_t s) {
          sum += static_cast<double>(saved_floats(call)[n * z.s + s]) * share_gradient(call, z, n, s);
        });
      }
      return;
    }
    if (call.gradients[2].present()) value_gradient(call, z);
    score_gradients(call, z);
  }

 private:
  static void score(const ShardCall& call, const BahdanauSizes& z) {
    const float *pk = call.values[1].floats, *v = call.values[3].floats;
    for (std::int64_t row = 0; row < z.n * z.s; ++row) {
      const float* pq = call.values[0].floats + row / z.s * z.a;
      double sum = 0;
      for_each_term(z.a, call.step.sums, [&](std::int64_t j) {
        sum += static_cast<double>(v[j] * std::tanh(pq[j] + pk[row * z.a + j]));
      });
      call.statistics[0][static_cast<std::size_t>(row)] = sum;
    }
  }

  static void average(const ShardCall& call, const BahdanauSizes& z, std::int64_t n) {
    const double most = call.statistics[1][static_cast<std::size_t>(n)];
    const double sum = call.statistics[2][static_cast<std::size_t>(n)];
    float *alpha = saved_floats(call) + n * z.s, *ctx = call.values[4].floats + n * z.d;
    std::fill_n(ctx, z.d, 0.0F);
    for_each_term(z.s, call.step.sums, [&](std::int64_t s) {
      alpha[s] = static_cast<float>(
          std::exp(call.statistics[0][static_cast<std::size_t>(n * z.s + s)] - most) / sum);
      const float* value = call.values[2].floats + (n * z.s + s) * z.d;
      for (std::int64_t j = 0; j < z.d; ++j) ctx[j] += alpha[s] * value[j];
    });
  }

  /// dα of one element: dctx · val.
  static double share_gradient(const ShardCall& call, const BahdanauSizes& z, std::int64_t n,
                               std::int64_t s) {
    const float *d = call.gradients[4].floats + n * z.d, *value = call.values[2].floats + (n * z.s + s) * z.d;
    double sum = 0;
    for_each_term(z.d, call.step.sums,
                  [&](std::int64_t j) { sum += static_cast<double>(d[j]) * static_cast<double>(value[j]); });
    return sum;
  }

  static void value_gradient(const ShardCall& call, const BahdanauSizes& z) {
    for (std::int64_t row = 0; row < z.n * z.s; ++row) {
      const float alpha = saved_floats(call)[row], *d = call.gradients[4].floats + row / z.s * z.d;
      float* to = call.gradients[2].floats + row * z.d;
      for (std::int64_t j = 0; j < z.d; ++j) to[j] = alpha * d[j];
    }
  }

  /// Gradients of pq, pk and v, which all come from those of the scores.
  static void score_gradients(const ShardCall& call, const BahdanauSizes& z) {
    const Piece &dq = call.gradients[0], &dk = call.gradients[1], &dv = call.gradients[3];
    const float* v = call.values[3].floats;
    std::vector<double> query(static_cast<std::size_t>(z.n * z.a)), weight(static_cast<std::size_t>(z.a));
    for_each_term(z.n * z.s, call.step.sums, [&](std::int64_t row) {
      const std::int64_t n = row / z.s;
      const double average = call.statistics[0][static_cast<std::size_t>(n)];
      const double ds =
          static_cast<double>(saved_floats(call)[row]) * (share_gradient(call, z, n, row % z.s) - average);
      const float *pq = call.values[0].floats + n * z.a, *pk = call.values[1].floats + row * z.a;
      for (std::int64_t j = 0; j < z.a; ++j) {
        const auto t = static_cast<double>(std::tanh(pq[j] + pk[j]));
        const double dp = ds * static_cast<double>(v[j]) * (1 - t * t);
        if (dk.present()) dk.floats[row * z.a + j] = static_cast<float>(dp);
        query[static_cast<std::size_t>(n * z.a + j)] += dp;
        weight[static_cast<std::size_t>(j)] += ds * t;
      }
    });
    const auto rounded = [](double x) { return static_cast<float>(x); };
    if (dq.present()) std::transform(query.begin(), query.end(), dq.floats, rounded);
    if (dv.present()) std::transform(weight.begin(), weight.end(), dv.floats, rounded);
  }
};

}  // namespace

std::vector<KernelEntry> bahdanau_kernels() {
  static const BahdanauAttention bahdanau_attention;
  return {{"bahdanau_attention", &bahdanau_attention}};
}

}  // namespace pipesim::cpu

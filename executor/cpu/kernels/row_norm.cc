#include <algorithm>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/row_norm.h"

namespace pipesim::cpu {
namespace {

/// Layer norm and RMS norm, over the last dim. values: x[…, h], gamma[h], beta[h] unless RMS, y; they may
/// have no weights. Groups of the last dim are rows of their own. Statistics of each row: forward Σx, Σx²;
/// backward Σg, Σg·x̂ with g = dy·γ. RMS norm has only the second of each.
class RowNorm : public Kernel {
 public:
  explicit RowNorm(bool rms) : rms_(rms) {}

  /// Mean (unless RMS) and 1/σ of each row.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return statistics() * sizeof(float) * rows_in(NormRows(op, ranges));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const NormRows r(call.op, call.ranges);
    if (segment == 0) {
      for (std::size_t i = 0; i < rows_in(r); ++i) add_up_values(call, r, i);
    } else {
      for (std::size_t i = 0; i < rows_in(r); ++i) normalise(call, r, i);
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const NormRows r(call.op, call.ranges);
    if (segment == 0) {
      for (std::size_t i = 0; i < rows_in(r); ++i) add_up_gradients(call, r, i);
      return weight_gradients(call, r);
    }
    if (!call.gradients[0].present()) return;
    for (std::size_t i = 0; i < rows_in(r); ++i) input_gradient(call, r, i);
  }

 private:
  static bool has_weights(const Operator& op) { return op.uses.size() > 2; }
  /// Returns a row's part; nullptr when the operator has no weights.
  static const float* gamma_of(const ShardCall& call, const NormRows& r, std::size_t row) {
    return has_weights(call.op) ? call.values[1].floats + r.first_weight(static_cast<std::int64_t>(row))
                                : nullptr;
  }
  static double factor(const float* gamma, std::int64_t j) {
    return gamma == nullptr ? 1 : static_cast<double>(gamma[j]);
  }
  static std::size_t rows_in(const NormRows& r) { return static_cast<std::size_t>(r.rows); }
  static std::int64_t at(const NormRows& r, std::size_t row) {
    return static_cast<std::int64_t>(row) * r.columns;
  }
  [[nodiscard]] std::size_t statistics() const { return rms_ ? 1 : 2; }
  [[nodiscard]] double mean_of(const float* saved, std::size_t row) const {
    return rms_ ? 0.0 : static_cast<double>(saved[2 * row]);
  }
  [[nodiscard]] double inverse_of(const float* saved, std::size_t row) const {
    return static_cast<double>(rms_ ? saved[row] : saved[2 * row + 1]);
  }

  void store(std::span<double> statistic, std::size_t row, double first, double second) const {
    if (!rms_) statistic[2 * row] = first;
    statistic[statistics() * row + statistics() - 1] = second;
  }

  void add_up_values(const ShardCall& call, const NormRows& r, std::size_t row) const {
    const float* x = call.values[0].floats + at(r, row);
    double sum = 0, squares = 0;
    for_each_term(r.columns, call.step.sums, [&](std::int64_t j) {
      const auto v = static_cast<double>(x[j]);
      sum += v;
      squares += v * v;
    });
    store(call.statistics[0], row, sum, squares);
  }

  void normalise(const ShardCall& call, const NormRows& r, std::size_t row) const {
    const float *x = call.values[0].floats + at(r, row), *gamma = gamma_of(call, r, row);
    const double* sums = call.statistics[0].data() + statistics() * row;
    const auto width = static_cast<double>(r.width);
    const double mean = rms_ ? 0.0 : sums[0] / width;
    const double inverse = inverse_deviation(mean, sums[statistics() - 1] / width);
    float *y = call.values.back().floats + at(r, row), *saved = saved_floats(call) + statistics() * row;
    if (!rms_) saved[0] = static_cast<float>(mean);
    saved[statistics() - 1] = static_cast<float>(inverse);
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const double normal = (static_cast<double>(x[j]) - mean) * inverse;
      y[j] = static_cast<float>(normal * factor(gamma, j));
    }
    if (rms_ || gamma == nullptr) return;
    const float* beta = call.values[2].floats;
    for (std::int64_t j = 0; j < r.columns; ++j) y[j] += beta[j];
  }

  void add_up_gradients(const ShardCall& call, const NormRows& r, std::size_t row) const {
    const float *x = call.values[0].floats + at(r, row), *gamma = gamma_of(call, r, row);
    const float* dy = call.gradients.back().floats + at(r, row);
    const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
    double sum = 0, products = 0;
    for_each_term(r.columns, call.step.sums, [&](std::int64_t j) {
      const double g = static_cast<double>(dy[j]) * factor(gamma, j);
      sum += g;
      products += g * (static_cast<double>(x[j]) - mean);
    });
    store(call.statistics[0], row, sum, products * inverse);
  }

  void weight_gradients(const ShardCall& call, const NormRows& r) const {
    if (!has_weights(call.op)) return;
    const auto columns = static_cast<std::size_t>(r.columns);
    const std::size_t weights = columns * static_cast<std::size_t>(r.groups);
    std::vector<double> along(weights, 0.0), sum(weights, 0.0);
    for_each_term(r.rows, call.step.sums, [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i);
      const float *x = call.values[0].floats + at(r, row), *dy = call.gradients.back().floats + at(r, row);
      const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
      const auto first = static_cast<std::size_t>(r.first_weight(i));
      for (std::size_t j = 0; j < columns; ++j) {
        const auto d = static_cast<double>(dy[j]);
        along[first + j] += d * (static_cast<double>(x[j]) - mean) * inverse;
        sum[first + j] += d;
      }
    });
    const auto rounded = [](double v) { return static_cast<float>(v); };
    const Piece& gamma = call.gradients[1];
    if (gamma.present()) std::transform(along.begin(), along.end(), gamma.floats, rounded);
    if (!rms_ && call.gradients[2].present()) {
      std::transform(sum.begin(), sum.end(), call.gradients[2].floats, rounded);
    }
  }

  void input_gradient(const ShardCall& call, const NormRows& r, std::size_t row) const {
    const float *x = call.values[0].floats + at(r, row), *gamma = gamma_of(call, r, row);
    const float* dy = call.gradients.back().floats + at(r, row);
    float* dx = call.gradients[0].floats + at(r, row);
    const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
    const double* sums = call.statistics[0].data() + statistics() * row;
    const auto width = static_cast<double>(r.width);
    const double average = rms_ ? 0.0 : sums[0] / width;
    const double along = inverse * sums[statistics() - 1] / width;
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const double g = static_cast<double>(dy[j]) * factor(gamma, j);
      dx[j] = static_cast<float>(inverse * (g - average - (static_cast<double>(x[j]) - mean) * along));
    }
  }

  bool rms_;
};

}  // namespace

std::vector<KernelEntry> row_norm_kernels() {
  static const RowNorm layer_norm(false), rms_norm(true);
  return {{"layer_norm", &layer_norm}, {"rms_norm", &rms_norm}};
}

}  // namespace pipesim::cpu

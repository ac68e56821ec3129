#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

constexpr double row_norm_epsilon = 1e-5;

/// Layer norm and RMS norm, over the last dim. values: x[…, h], gamma[h], beta[h] unless RMS, y. Statistics
/// of each row: forward Σx, Σx²; backward Σg, Σg·x̂ with g = dy·γ. RMS norm has only the second of each.
class RowNorm : public Kernel {
 public:
  explicit RowNorm(bool rms) : rms_(rms) {}

  /// Mean (unless RMS) and 1/σ of each row.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const Box x = pipesim::box_of(op.uses[0], op, ranges);
    return statistics() * sizeof(float) * static_cast<std::size_t>(volume(x, 0, x.dims() - 1));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const Rows r(call);
    if (segment == 0) {
      for (std::size_t i = 0; i < r.rows; ++i) add_up_values(call, r, i);
    } else {
      for (std::size_t i = 0; i < r.rows; ++i) normalise(call, r, i);
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const Rows r(call);
    if (segment == 0) {
      for (std::size_t i = 0; i < r.rows; ++i) add_up_gradients(call, r, i);
      return weight_gradients(call, r);
    }
    if (!call.gradients[0].present()) return;
    for (std::size_t i = 0; i < r.rows; ++i) input_gradient(call, r, i);
  }

 private:
  struct Rows {
    explicit Rows(const ShardCall& call) {
      const Box x = box_of(call, 0);
      rows = static_cast<std::size_t>(volume(x, 0, x.dims() - 1));
      columns = x[x.dims() - 1].length();
      width = static_cast<double>(call.op.uses[0].dims.back().extent);
    }
    [[nodiscard]] std::int64_t at(std::size_t row) const { return static_cast<std::int64_t>(row) * columns; }
    std::size_t rows = 0;
    std::int64_t columns = 0;
    double width = 0;  ///< of the unsplit row
  };

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

  void add_up_values(const ShardCall& call, const Rows& r, std::size_t row) const {
    const float* x = call.values[0].floats + r.at(row);
    double sum = 0, squares = 0;
    for_each_term(r.columns, call.step.sums, [&](std::int64_t j) {
      const auto v = static_cast<double>(x[j]);
      sum += v;
      squares += v * v;
    });
    store(call.statistics[0], row, sum, squares);
  }

  void normalise(const ShardCall& call, const Rows& r, std::size_t row) const {
    const float *x = call.values[0].floats + r.at(row), *gamma = call.values[1].floats;
    const double* sums = call.statistics[0].data() + statistics() * row;
    const double mean = rms_ ? 0.0 : sums[0] / r.width;
    const double variance = std::max(0.0, sums[statistics() - 1] / r.width - mean * mean);
    const double inverse = 1 / std::sqrt(variance + row_norm_epsilon);
    float *y = call.values.back().floats + r.at(row), *saved = saved_floats(call) + statistics() * row;
    if (!rms_) saved[0] = static_cast<float>(mean);
    saved[statistics() - 1] = static_cast<float>(inverse);
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const double normal = (static_cast<double>(x[j]) - mean) * inverse;
      y[j] = static_cast<float>(normal * static_cast<double>(gamma[j]));
    }
    if (rms_) return;
    const float* beta = call.values[2].floats;
    for (std::int64_t j = 0; j < r.columns; ++j) y[j] += beta[j];
  }

  void add_up_gradients(const ShardCall& call, const Rows& r, std::size_t row) const {
    const float *x = call.values[0].floats + r.at(row), *gamma = call.values[1].floats;
    const float* dy = call.gradients.back().floats + r.at(row);
    const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
    double sum = 0, products = 0;
    for_each_term(r.columns, call.step.sums, [&](std::int64_t j) {
      const double g = static_cast<double>(dy[j]) * static_cast<double>(gamma[j]);
      sum += g;
      products += g * (static_cast<double>(x[j]) - mean);
    });
    store(call.statistics[0], row, sum, products * inverse);
  }

  void weight_gradients(const ShardCall& call, const Rows& r) const {
    const auto columns = static_cast<std::size_t>(r.columns);
    std::vector<double> along(columns, 0.0), sum(columns, 0.0);
    for_each_term(static_cast<std::int64_t>(r.rows), call.step.sums, [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i);
      const float *x = call.values[0].floats + r.at(row), *dy = call.gradients.back().floats + r.at(row);
      const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
      for (std::size_t j = 0; j < columns; ++j) {
        const auto d = static_cast<double>(dy[j]);
        along[j] += d * (static_cast<double>(x[j]) - mean) * inverse;
        sum[j] += d;
      }
    });
    const auto rounded = [](double v) { return static_cast<float>(v); };
    const Piece& gamma = call.gradients[1];
    if (gamma.present()) std::transform(along.begin(), along.end(), gamma.floats, rounded);
    if (!rms_ && call.gradients[2].present()) {
      std::transform(sum.begin(), sum.end(), call.gradients[2].floats, rounded);
    }
  }

  void input_gradient(const ShardCall& call, const Rows& r, std::size_t row) const {
    const float *x = call.values[0].floats + r.at(row), *gamma = call.values[1].floats;
    const float* dy = call.gradients.back().floats + r.at(row);
    float* dx = call.gradients[0].floats + r.at(row);
    const double mean = mean_of(saved_floats(call), row), inverse = inverse_of(saved_floats(call), row);
    const double* sums = call.statistics[0].data() + statistics() * row;
    const double average = rms_ ? 0.0 : sums[0] / r.width;
    const double along = inverse * sums[statistics() - 1] / r.width;
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const double g = static_cast<double>(dy[j]) * static_cast<double>(gamma[j]);
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

#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/rows.h"

namespace pipesim::cpu {
namespace {

/// Over the last dim. values: x[…, v], y. Statistics of each row: forward the largest, then Σ exp; backward
/// Σ dy·y.
class Softmax : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t segment) const override {
    const std::int64_t columns = Rows(call.op, call.ranges).columns;
    const SumOrder order = call.step.sums;
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const float* x = call.values[0].floats + static_cast<std::int64_t>(i) * columns;
      float* y = call.values[1].floats + static_cast<std::int64_t>(i) * columns;
      if (segment == 0) {
        call.statistics[0][i] = static_cast<double>(*std::max_element(x, x + columns));
      } else if (segment == 1) {
        const auto most = static_cast<float>(call.statistics[0][i]);
        double sum = 0;
        for_each_term(columns, order, [&](std::int64_t j) {
          y[j] = std::exp(x[j] - most);
          sum += static_cast<double>(y[j]);
        });
        call.statistics[1][i] = sum;
      } else {
        const auto share = static_cast<float>(1 / call.statistics[1][i]);
        for (std::int64_t j = 0; j < columns; ++j) y[j] *= share;
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const std::int64_t columns = Rows(call.op, call.ranges).columns;
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * columns;
      const float *y = call.values[1].floats + first, *dy = call.gradients[1].floats + first;
      double& sum = call.statistics[0][i];
      if (segment == 0) {
        sum = 0;
        for_each_term(columns, call.step.sums,
                      [&](std::int64_t j) { sum += static_cast<double>(dy[j]) * static_cast<double>(y[j]); });
      } else {
        float* dx = call.gradients[0].floats + first;
        const auto average = static_cast<float>(sum);
        for (std::int64_t j = 0; j < columns; ++j) dx[j] = y[j] * (dy[j] - average);
      }
    }
  }
};

}  // namespace

std::vector<KernelEntry> softmax_kernels() {
  static const Softmax softmax;
  return {{"softmax", &softmax}};
}

}  // namespace pipesim::cpu

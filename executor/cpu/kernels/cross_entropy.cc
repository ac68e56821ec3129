#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/cross_entropy.h"
#include "executor/operators/loss_rows.h"
#include "executor/operators/rows.h"

namespace pipesim::cpu {
namespace {

/// values: logits x[…, v], labels […], loss []. Statistics: the largest logit of each row; per row Σ exp and
/// the label's logit (0 where another shard owns it). Rows with a negative label add nothing to the loss.
class CrossEntropy : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(Rows(op, ranges).rows);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) return find_largest(call);
    if (segment == 1) return add_exponentials(call);
    const std::span<const double> most = call.statistics[0], sums = call.statistics[1];
    double loss = 0;
    for_each_term(std::ssize(most), call.step.sums, [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i);
      const double log_sum = log_sum_of(most[row], sums[2 * row]);
      saved_floats(call)[i] = static_cast<float>(log_sum);
      loss += row_loss(call.values[1].integers[i], log_sum, sums[2 * row + 1]);
    });
    call.values[2].floats[0] = static_cast<float>(loss / counted_rows(call.op, call.step.microbatches));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &labels = call.values[1], &dx = call.gradients[0];
    const Rows rows(call.op, call.ranges);
    const Range owned = rows.owned;
    const std::int64_t columns = rows.columns;
    const float* log_sums = saved_floats(call);
    const auto scale = static_cast<float>(static_cast<double>(call.gradients[2].floats[0]) /
                                          counted_rows(call.op, call.step.added_up));
    for (std::int64_t i = 0; i < labels.elements(); ++i) {
      const float* from = x.floats + i * columns;
      float* to = dx.floats + i * columns;
      const std::int64_t label = labels.integers[i];
      const float scaled = row_scale(label, scale);
      for (std::int64_t j = 0; j < columns; ++j) to[j] = logit_gradient(from[j], log_sums[i], scaled);
      if (owns_label(label, owned.begin, columns)) to[label - owned.begin] -= scaled;
    }
  }

 private:
  static void find_largest(const ShardCall& call) {
    const Piece& x = call.values[0];
    const std::int64_t columns = Rows(call.op, call.ranges).columns;
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const float* row = x.floats + static_cast<std::int64_t>(i) * columns;
      call.statistics[0][i] = static_cast<double>(*std::max_element(row, row + columns));
    }
  }

  static void add_exponentials(const ShardCall& call) {
    const Piece& x = call.values[0];
    const Rows rows(call.op, call.ranges);
    const Range owned = rows.owned;
    const std::int64_t columns = rows.columns;
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const float* row = x.floats + static_cast<std::int64_t>(i) * columns;
      const auto most = static_cast<float>(call.statistics[0][i]);
      double sum = 0;
      for_each_term(columns, call.step.sums,
                    [&](std::int64_t j) { sum += static_cast<double>(std::exp(row[j] - most)); });
      const std::int64_t label = call.values[1].integers[i];
      const bool own = owns_label(label, owned.begin, columns);
      call.statistics[1][2 * i] = sum;
      call.statistics[1][2 * i + 1] = own ? static_cast<double>(row[label - owned.begin]) : 0.0;
    }
  }
};

}  // namespace

std::vector<KernelEntry> cross_entropy_kernels() {
  static const CrossEntropy cross_entropy;
  return {{"cross_entropy", &cross_entropy}};
}

}  // namespace pipesim::cpu

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/cross_entropy.h"
#include "executor/operators/loss_rows.h"
#include "executor/operators/rows.h"

namespace pipesim::cpu {
namespace {

// The loss from each row's largest logit, Σ exp and its label's logit; log_sums[row] is the log of its sum.
void add_up_rows(const ShardCall& call, float* log_sums) {
  const std::span<const double> most = call.statistics[0], sums = call.statistics[1];
  double loss = 0;
  for_each_term(std::ssize(most), call.step.sums, [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i);
    const double log_sum = log_sum_of(most[row], sums[2 * row]);
    log_sums[i] = static_cast<float>(log_sum);
    loss += row_loss(call.values[1].integers[i], log_sum, sums[2 * row + 1]);
  });
  call.values.back().floats[0] = static_cast<float>(loss / counted_rows(call.op, call.step.microbatches));
}

/// values: logits x[…, v], labels […], loss []. Statistics: the largest logit of each row; per row Σ exp and
/// the label's logit (0 where another shard owns it). Rows with a negative label add nothing to the loss.
/// Saves the log of each row's sum, or each row's softmax, after which x is not needed.
class CrossEntropy : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const Rows rows(op, ranges);
    return sizeof(float) * static_cast<std::size_t>(rows.rows * (keeps_softmax(op) ? rows.columns : 1));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) return find_largest(call);
    if (segment == 1) return add_exponentials(call);
    if (!keeps_softmax(call.op)) return add_up_rows(call, saved_floats(call));
    std::vector<float> log_sums(call.statistics[0].size());
    add_up_rows(call, log_sums.data());
    keep_softmax(call, log_sums);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &labels = call.values[1], &dx = call.gradients[0];
    const Rows rows(call.op, call.ranges);
    const Range owned = rows.owned;
    const std::int64_t columns = rows.columns;
    const bool softmax_is_kept = keeps_softmax(call.op);
    const float* saved = saved_floats(call);
    const auto scale = static_cast<float>(static_cast<double>(call.gradients[2].floats[0]) /
                                          counted_rows(call.op, call.step.added_up));
    for (std::int64_t i = 0; i < labels.elements(); ++i) {
      const float* from = (softmax_is_kept ? saved : call.values[0].floats) + i * columns;
      float* to = dx.floats + i * columns;
      const std::int64_t label = labels.integers[i];
      const float scaled = row_scale(label, scale);
      for (std::int64_t j = 0; j < columns; ++j)
        to[j] = softmax_is_kept ? from[j] * scaled : logit_gradient(from[j], saved[i], scaled);
      if (owns_label(label, owned.begin, columns)) to[label - owned.begin] -= scaled;
    }
  }

 private:
  static void keep_softmax(const ShardCall& call, std::span<const float> log_sums) {
    const float* x = call.values[0].floats;
    float* softmax = saved_floats(call);
    const std::int64_t columns = Rows(call.op, call.ranges).columns;
    for (const float log_sum : log_sums) {
      for (std::int64_t j = 0; j < columns; ++j) *softmax++ = logit_gradient(*x++, log_sum, 1);
    }
  }

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

/// values: x[…, h], labels […], w[h, v] or [v, h], b[v] if any, loss []. Statistics as CrossEntropy has them.
/// Logits exist for one part of the rows at a time, in the first segment of forward and in backward, where
/// their gradient takes their place. Until its last segment forward keeps each row's own largest logit where
/// it saves the log of the row's sum.
class LinearCrossEntropy : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(Rows(op, ranges).rows);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) return add_up_parts(call);
    if (segment == 1) return share_largest(call);
    add_up_rows(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Parts parts(call);
    const SumOrder order = call.step.sums;
    const float *x = call.values[0].floats, *w = call.values[2].floats, *log_sums = saved_floats(call);
    const Piece &dx = call.gradients[0], &dw = call.gradients[2];
    const bool wants_bias = has_bias(call) && call.gradients[3].present();
    const auto scale = static_cast<float>(static_cast<double>(call.gradients.back().floats[0]) /
                                          counted_rows(call.op, call.step.added_up));
    std::vector<float> bias_part(static_cast<std::size_t>(wants_bias ? parts.columns : 0));
    if (wants_bias) std::ranges::fill(floats_of(call.gradients[3]), 0.0F);
    parts.for_each([&](std::int64_t first, std::int64_t rows, float* logits) {
      for (std::int64_t i = 0; i < rows; ++i) {
        float* row = logits + i * parts.columns;
        const std::int64_t label = call.values[1].integers[first + i];
        const float scaled = row_scale(label, scale);
        for (std::int64_t j = 0; j < parts.columns; ++j)
          row[j] = logit_gradient(row[j], log_sums[first + i], scaled);
        if (owns_label(label, parts.owned.begin, parts.columns)) row[label - parts.owned.begin] -= scaled;
      }
      const float* part = x + first * parts.width;
      if (dx.present()) {
        multiply({rows, parts.width, parts.columns, false, !parts.transposed, false, order}, logits, w,
                 dx.floats + first * parts.width, call.op.name);
      }
      if (dw.present() && parts.transposed) {
        multiply({parts.columns, parts.width, rows, true, false, first > 0, order}, logits, part, dw.floats,
                 call.op.name);
      } else if (dw.present()) {
        multiply({parts.width, parts.columns, rows, true, false, first > 0, order}, part, logits, dw.floats,
                 call.op.name);
      }
      if (!wants_bias) return;
      column_sums(logits, rows, parts.columns, order, bias_part.data());
      for (std::int64_t j = 0; j < parts.columns; ++j)
        call.gradients[3].floats[j] += bias_part[static_cast<std::size_t>(j)];
    });
  }

 private:
  static bool has_bias(const ShardCall& call) { return integer_of(call.op, "bias") != 0; }

  /// The parts of the rows, and the logits of one of them.
  struct Parts {
    explicit Parts(const ShardCall& shard)
        : call(shard), transposed(integer_of(shard.op, "transpose_weight") != 0) {
      const Rows x(call.op, call.ranges);
      rows = x.rows;
      width = x.columns;
      owned = box_of(call, 2)[transposed ? 0 : 1];
      columns = owned.length();
    }

    /// visit(first row, rows, their logits), which it may overwrite.
    template <class Visit>
    void for_each(Visit visit) const {
      const std::int64_t chunks = integer_of(call.op, "chunks"), most = (rows + chunks - 1) / chunks;
      std::vector<float> logits(static_cast<std::size_t>(most * columns));
      for (std::int64_t first = 0; first < rows; first += most) {
        const std::int64_t count = std::min(most, rows - first);
        multiply({count, columns, width, false, transposed, false, call.step.sums},
                 call.values[0].floats + first * width, call.values[2].floats, logits.data(), call.op.name);
        for (std::int64_t i = 0; has_bias(call) && i < count; ++i) {
          for (std::int64_t j = 0; j < columns; ++j)
            logits[static_cast<std::size_t>(i * columns + j)] += call.values[3].floats[j];
        }
        visit(first, count, logits.data());
      }
    }

    const ShardCall& call;
    bool transposed;
    std::int64_t rows = 0, width = 0, columns = 0;
    Range owned;  ///< columns of the unsplit logits
  };

  static void add_up_parts(const ShardCall& call) {
    const Parts parts(call);
    parts.for_each([&](std::int64_t first, std::int64_t rows, const float* logits) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const float* row = logits + i * parts.columns;
        const float most = *std::max_element(row, row + parts.columns);
        double sum = 0;
        for_each_term(parts.columns, call.step.sums,
                      [&](std::int64_t j) { sum += static_cast<double>(std::exp(row[j] - most)); });
        const std::int64_t label = call.values[1].integers[first + i];
        const bool own = owns_label(label, parts.owned.begin, parts.columns);
        const auto at = static_cast<std::size_t>(first + i);
        saved_floats(call)[first + i] = most;
        call.statistics[0][at] = static_cast<double>(most);
        call.statistics[1][2 * at] = sum;
        call.statistics[1][2 * at + 1] = own ? static_cast<double>(row[label - parts.owned.begin]) : 0.0;
      }
    });
  }

  static void share_largest(const ShardCall& call) {
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const auto own = static_cast<double>(saved_floats(call)[i]);
      call.statistics[1][2 * i] *= std::exp(own - call.statistics[0][i]);
    }
  }
};

}  // namespace

std::vector<KernelEntry> cross_entropy_kernels() {
  static const CrossEntropy cross_entropy;
  static const LinearCrossEntropy linear_cross_entropy;
  return {{"cross_entropy", &cross_entropy}, {"linear_cross_entropy", &linear_cross_entropy}};
}

}  // namespace pipesim::cpu

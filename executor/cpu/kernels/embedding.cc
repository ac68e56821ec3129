#include <algorithm>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/embedding.h"

namespace pipesim::cpu {
namespace {

/// values: indices, table w[v, h], y[…, h]. Rows that the shard does not own are 0 in its addend.
class Embedding : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &w = call.values[1], &y = call.values[2];
    const EmbeddingShape shape(call.op, call.ranges);
    const std::int64_t width = shape.width;
    for (std::int64_t i = 0; i < shape.indices; ++i) {
      const std::int64_t row = call.values[0].integers[i] - shape.first_row;
      float* to = y.floats + i * width;
      if (row >= 0 && row < shape.rows) {
        std::copy_n(w.floats + row * width, width, to);
      } else {
        std::fill_n(to, width, 0.0F);
      }
    }
  }

  void backward_weight(const ShardCall& call) const override {
    const Piece &index = call.values[0], &dw = call.gradients[1], &dy = call.gradients[2];
    if (!dw.present()) return;
    std::fill_n(dw.floats, dw.elements(), 0.0F);
    const EmbeddingShape shape(call.op, call.ranges);
    for_each_term(shape.indices, call.step.sums, [&](std::int64_t i) {
      const std::int64_t row = index.integers[i] - shape.first_row;
      if (row < 0 || row >= shape.rows) return;
      float* to = dw.floats + row * shape.width;
      for (std::int64_t j = 0; j < shape.width; ++j) to[j] += dy.floats[i * shape.width + j];
    });
  }
};

/// values: indices[b, l], table w[v, h], y[b, h]. Rows that the shard does not own are 0 in its addend.
class EmbeddingBag : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& y = call.values[2];
    const std::int64_t width = y.box[1].length();
    std::vector<double> sums(static_cast<std::size_t>(y.elements()), 0.0);
    for_each_row(call, [&](std::int64_t sample, std::int64_t row) {
      for (std::int64_t j = 0; j < width; ++j)
        sums[static_cast<std::size_t>(sample * width + j)] +=
            static_cast<double>(call.values[1].floats[row * width + j]);
    });
    const double share = share_of(call.op);
    std::ranges::transform(sums, y.floats, [&](double sum) { return static_cast<float>(sum * share); });
  }

  void backward_weight(const ShardCall& call) const override {
    const Piece &dw = call.gradients[1], &dy = call.gradients[2];
    if (!dw.present()) return;
    const std::int64_t width = dw.box[1].length();
    const auto share = static_cast<float>(share_of(call.op));
    std::fill_n(dw.floats, dw.elements(), 0.0F);
    for_each_row(call, [&](std::int64_t sample, std::int64_t row) {
      for (std::int64_t j = 0; j < width; ++j)
        dw.floats[row * width + j] += share * dy.floats[sample * width + j];
    });
  }

 private:
  static double share_of(const Operator& op) {
    return word_of(op, "mode") == "mean" ? 1 / static_cast<double>(op.uses[0].dims[1].extent) : 1;
  }
  /// visit(sample, row of the shard's table) of the rows that it owns.
  template <class Visit>
  static void for_each_row(const ShardCall& call, Visit visit) {
    const Piece& indices = call.values[0];
    const Range owned = box_of(call, 1)[0];
    const std::int64_t length = indices.box[1].length();
    for_each_term(indices.elements(), call.step.sums, [&](std::int64_t i) {
      const std::int64_t row = indices.integers[i] - owned.begin;
      if (row >= 0 && row < owned.length()) visit(i / length, row);
    });
  }
};

}  // namespace

std::vector<KernelEntry> embedding_kernels() {
  static const Embedding embedding;
  static const EmbeddingBag embedding_bag;
  return {{"embedding", &embedding}, {"embedding_bag", &embedding_bag}};
}

}  // namespace pipesim::cpu

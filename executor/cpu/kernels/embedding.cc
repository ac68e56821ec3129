#include <algorithm>

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

}  // namespace

std::vector<KernelEntry> embedding_kernels() {
  static const Embedding embedding;
  return {{"embedding", &embedding}};
}

}  // namespace pipesim::cpu

#include <algorithm>

#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

/// values: indices, table w[v, h], y[…, h]. Rows that the shard does not own are 0 in its addend.
class Embedding : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &w = call.values[1], &y = call.values[2];
    const std::int64_t width = w.box[1].length();
    for (std::int64_t i = 0; i < call.values[0].elements(); ++i) {
      const std::int64_t row = call.values[0].integers[i] - w.box[0].begin;
      float* to = y.floats + i * width;
      if (row >= 0 && row < w.box[0].length()) {
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
    const std::int64_t width = dw.box[1].length();
    for_each_term(index.elements(), call.step.sums, [&](std::int64_t i) {
      const std::int64_t row = index.integers[i] - dw.box[0].begin;
      if (row < 0 || row >= dw.box[0].length()) return;
      float* to = dw.floats + row * width;
      for (std::int64_t j = 0; j < width; ++j) to[j] += dy.floats[i * width + j];
    });
  }
};

}  // namespace

std::vector<KernelEntry> embedding_kernels() {
  static const Embedding embedding;
  return {{"embedding", &embedding}};
}

}  // namespace pipesim::cpu

#include "executor/gpu/bodies/embedding.h"

#include "executor/gpu/steps/chunks.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// values: indices, table w[v, h], y[…, h], as cpu::Embedding.
class Embedding : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const EmbeddingShape shape(call.op, call.ranges);
    run(call.stream, shape.indices * shape.width,
        ReadRows{call.values[0].integers(), call.values[1].floats(), call.values[2].floats(), shape});
  }

  void backward_weight(const ShardCall& call) const override {
    const Piece& dw = call.gradients[1];
    if (!dw.present()) return;
    const EmbeddingShape shape(call.op, call.ranges);
    call.stream.zero(dw.memory, static_cast<std::size_t>(dw.elements() * bytes_per_element(dw.type)));
    if (shape.indices == 0 || shape.width == 0) return;
    const std::int64_t count = rounded_up_quotient(shape.indices, RowSegments::kSegment);
    const auto parts = static_cast<std::size_t>(2 * count * shape.width);
    const RowSegments segments{sorted(call, shape), shape,
                               reinterpret_cast<float*>(call.stream.scratch(parts * sizeof(float))),
                               dw.floats()};
    run(call.stream, count * shape.width, AddUpSegments{segments, call.gradients[2].floats()});
    run(call.stream, count * shape.width, JoinSegments{segments});
  }

 private:
  static SortedPlaces places(const ShardCall& call, const EmbeddingShape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.indices) * sizeof(std::int64_t);
    auto* rows = reinterpret_cast<std::int64_t*>(call.stream.scratch(bytes));
    return {rows, reinterpret_cast<std::int64_t*>(call.stream.scratch(bytes))};
  }

  static SortedPlaces sorted(const ShardCall& call, const EmbeddingShape& shape) {
    const SortedPlaces chunks = places(call, shape);
    run(call.stream, shape.indices, SortChunks{call.values[0].integers(), shape, chunks});
    if (shape.indices <= SortChunks::kChunk) return chunks;
    const SortedPlaces all = places(call, shape);
    run(call.stream, shape.indices, MergeChunks{chunks, all, shape.indices});
    return all;
  }
};

}  // namespace

std::vector<KernelEntry> embedding_kernels() {
  static const Embedding embedding;
  return {{"embedding", &embedding}};
}

}  // namespace pipesim::gpu

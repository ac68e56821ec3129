#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/gpu/bodies/parts/score_block.h"
#include "executor/gpu/steps/products.h"

namespace pipesim::gpu {

/// A tensor [b, n, g, width] of attention as a matrix for every sample and head: those of queries and results
/// have the r query heads of a key-value head as rows beside one another.
struct HeadMatrices {
  Floats elements;
  std::int64_t row = 0, head = 0, sample = 0;  ///< elements from one to the next
  bool transposed = false;
  std::int64_t start = 0;  ///< elements before the first matrix
};

/// Bytes of an element.
std::size_t bytes_of(Stored stored);

/// The matrices of a tensor, in the tensor itself or in scratch memory, where they may be packed as [b, g, n,
/// width]. A tensor in zigzag order must be brought to scratch memory, which has it in order of positions and
/// not packed.
class HeadTensor {
 public:
  /// `members`: rows in `width`. `order`: of the tensor's n.
  HeadTensor(const AttentionSizes& a, const Floats& tensor, std::int64_t length, std::int64_t members,
             std::int64_t depth, const ZigzagOrder& order = {1, 0});
  [[nodiscard]] std::int64_t elements() const { return samples_ * length_ * heads_ * width_; }
  /// Copies the tensor into scratch memory.
  void pack(Stream& stream, bool packed);
  /// Lets results be written into scratch memory of a type; unpack() brings them into the tensor.
  void stage(Stream& stream, Stored stored, bool packed);
  void unpack(Stream& stream) const;
  /// Sets the matrices to 0, wherever they are.
  void zero(Stream& stream) const;
  [[nodiscard]] Stored stored() const { return tensor_.stored; }
  [[nodiscard]] HeadMatrices matrices(std::int64_t first_row = 0, bool transposed = false) const;

 private:
  void copy(Stream& stream, bool to_tensor) const;
  void copy_zigzag(Stream& stream, bool to_tensor) const;
  Floats tensor_, staged_;
  std::int64_t samples_, length_, heads_, members_, depth_, width_;
  ZigzagOrder order_;
  bool packed_ = false;
};

/// d = scale · a · b (+ d) for every head of the block: one batched product where the strides allow, else one
/// for each sample.
struct HeadProduct {
  std::int64_t rows = 0, columns = 0, inner = 0;
  HeadMatrices a{}, b{}, d{};
  float scale = 1;
  bool accumulate = false;
};
void multiply(Stream& stream, const ScoreBlock& block, const HeadProduct& product);

/// The matrices of the block's scores, or of anything with the same layout.
HeadMatrices score_matrices(const ScoreBlock& block, const Floats& scores, bool transposed = false);

/// These limits decide how the work is cut. Tests choose other limits.
struct AttentionLimits {
  std::int64_t score_bytes = std::int64_t{512} << 20;  ///< held at a time, about
  /// Under a causal mask sequences are cut into up to `causal_blocks` blocks of at least `shortest_block`
  /// queries, so that keys that no query of a block sees cost nothing.
  std::int64_t causal_blocks = 8, shortest_block = 512;
  /// From so many multiply-adds of a sample's scores, a product for each sample is as fast as one for all.
  std::int64_t large_sample = std::int64_t{1} << 29;
};

/// How many queries, and heads of all samples, have their scores computed at once. A score takes `bytes`.
struct BlockLengths {
  BlockLengths(const AttentionSizes& a, std::int64_t bytes, const AttentionLimits& limits);
  std::int64_t queries = 1, heads = 1;
};

}  // namespace pipesim::gpu

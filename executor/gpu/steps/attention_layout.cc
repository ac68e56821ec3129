#include "executor/gpu/steps/attention_layout.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "executor/gpu/bodies/strided_copy.h"

namespace pipesim::gpu {
namespace {

// From one matrix of a batch to the next, if it is the same for all of the block's.
std::int64_t batch_stride(const ScoreBlock& block, const HeadMatrices& m) {
  return block.sizes.g == 1 ? m.sample : m.head;
}
bool evenly_spaced(const ScoreBlock& block, const HeadMatrices& m) {
  return block.sizes.b == 1 || block.sizes.g == 1 || m.sample == m.head * block.sizes.g;
}

MatrixProduct::Matrix matrices_from(const ScoreBlock& block, const HeadMatrices& m, std::int64_t flat) {
  const std::int64_t g = block.sizes.g, first = m.start + flat / g * m.sample + flat % g * m.head;
  auto* memory = static_cast<std::byte*>(m.elements.memory) +
                 first * static_cast<std::int64_t>(bytes_of(m.elements.stored));
  return {{memory, m.elements.stored}, m.transposed, m.row, batch_stride(block, m)};
}

}  // namespace

std::size_t bytes_of(Stored stored) {
  if (stored == Stored::Float64) return sizeof(double);
  return stored == Stored::Float32 ? sizeof(float) : sizeof(std::uint16_t);
}

HeadTensor::HeadTensor(const AttentionSizes& a, const Floats& tensor, std::int64_t length,
                       std::int64_t members, std::int64_t depth, const ZigzagOrder& order)
    : tensor_(tensor),
      staged_(tensor),
      samples_(a.b),
      length_(length),
      heads_(a.g),
      members_(members),
      depth_(depth),
      width_(members * depth),
      order_(order) {}

void HeadTensor::stage(Stream& stream, Stored stored, bool packed) {
  staged_ = {stream.scratch(bytes_of(stored) * static_cast<std::size_t>(elements())), stored};
  packed_ = packed;
}

void HeadTensor::pack(Stream& stream, bool packed) {
  stage(stream, tensor_.stored, packed);
  copy(stream, false);
}

void HeadTensor::unpack(Stream& stream) const {
  if (staged_.memory != tensor_.memory) copy(stream, true);
}

void HeadTensor::zero(Stream& stream) const {
  stream.zero(staged_.memory, bytes_of(staged_.stored) * static_cast<std::size_t>(elements()));
}

void HeadTensor::copy(Stream& stream, bool to_tensor) const {
  if (!order_.plain()) return copy_zigzag(stream, to_tensor);
  const StridedCopy::Strides plain{length_ * heads_ * width_, width_, heads_ * width_, 1};
  const StridedCopy::Strides packed{length_ * heads_ * width_, length_ * width_, width_, 1};
  StridedCopy moved{.from = tensor_,
                    .to = staged_,
                    .lengths = {samples_, heads_, length_, width_},
                    .from_strides = plain,
                    .to_strides = packed_ ? packed : plain};
  if (to_tensor) {
    std::swap(moved.from, moved.to);
    std::swap(moved.from_strides, moved.to_strides);
  }
  run(stream, moved.elements(), moved);
}

// Chunks with even numbers ascend by position, those between them descend.
void HeadTensor::copy_zigzag(Stream& stream, bool to_tensor) const {
  const std::int64_t row = heads_ * width_, chunk = order_.chunk() * row, sample = length_ * row;
  for (const bool ascend : {true, false}) {
    StridedCopy moved{.from = ascend ? tensor_ : tensor_.from(chunk),
                      .to = ascend ? staged_ : staged_.from((order_.chunks() - 1) * chunk),
                      .lengths = {samples_, order_.chunks() / 2, chunk, 1},
                      .from_strides = {sample, 2 * chunk, 1, 1},
                      .to_strides = {sample, ascend ? chunk : -chunk, 1, 1}};
    if (to_tensor) {
      std::swap(moved.from, moved.to);
      std::swap(moved.from_strides, moved.to_strides);
    }
    run(stream, moved.elements(), moved);
  }
}

HeadMatrices HeadTensor::matrices(std::int64_t first_row, bool transposed) const {
  // Rows of one head lie evenly where it has the tensor alone, or one row at each place.
  const std::int64_t row = packed_ || members_ > 1 ? depth_ : heads_ * width_;
  return {.elements = staged_,
          .row = row,
          .head = packed_ ? length_ * width_ : width_,
          .sample = length_ * heads_ * width_,
          .transposed = transposed,
          .start = first_row * row};
}

void multiply(Stream& stream, const ScoreBlock& block, const HeadProduct& product) {
  const std::int64_t g = block.sizes.g, end = block.first_head + block.heads;
  const bool even =
      evenly_spaced(block, product.a) && evenly_spaced(block, product.b) && evenly_spaced(block, product.d);
  for (std::int64_t flat = block.first_head; flat < end;) {
    const std::int64_t next = even ? end : std::min(end, (flat / g + 1) * g);
    multiply(stream, MatrixProduct{.rows = product.rows,
                                   .columns = product.columns,
                                   .inner = product.inner,
                                   .batch = next - flat,
                                   .a = matrices_from(block, product.a, flat),
                                   .b = matrices_from(block, product.b, flat),
                                   .d = matrices_from(block, product.d, flat),
                                   .scale = product.scale,
                                   .accumulate = product.accumulate});
    flat = next;
  }
}

HeadMatrices score_matrices(const ScoreBlock& block, const Floats& scores, bool transposed) {
  const std::int64_t head = block.rows_of_head() * block.stride;
  return {.elements = scores,
          .row = block.stride,
          .head = head,
          .sample = block.sizes.g * head,
          .transposed = transposed,
          .start = -block.first_head * head};
}

BlockLengths::BlockLengths(const AttentionSizes& a, std::int64_t bytes, const AttentionLimits& limits) {
  const auto one = std::int64_t{1};
  const std::int64_t of_query = std::max(one, a.r * a.t * bytes);
  const std::int64_t cut =
      std::max(limits.shortest_block, (a.s + limits.causal_blocks - 1) / limits.causal_blocks);
  queries =
      std::clamp(limits.score_bytes / of_query, one, std::max(one, a.causal ? std::min(a.s, cut) : a.s));
  // Blocks of about one length: the last of them should not be a single head.
  const std::int64_t all = std::max(one, a.b * a.g);
  const std::int64_t most = std::clamp(limits.score_bytes / (of_query * queries), one, all);
  const std::int64_t blocks = (all + most - 1) / most;
  heads = (all + blocks - 1) / blocks;
}

}  // namespace pipesim::gpu

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/cpu/kernel.h"

namespace pipesim::cpu {

// What kernels read from an operator and from a shard's boxes.

inline std::int64_t integer_of(const Operator& op, const char* attribute) {
  return std::get<std::int64_t>(op.attributes.at(attribute));
}
inline double real_of(const Operator& op, const char* attribute) {
  return std::get<double>(op.attributes.at(attribute));
}
inline const std::string& word_of(const Operator& op, const char* attribute) {
  return std::get<std::string>(op.attributes.at(attribute));
}
inline const std::vector<std::int64_t>& list_of(const Operator& op, const char* attribute) {
  return std::get<std::vector<std::int64_t>>(op.attributes.at(attribute));
}

/// This shard's length of the factor of that name; 1 where the operator has none.
inline std::int64_t length_of(const Operator& op, std::span<const Range> ranges, std::string_view factor) {
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    if (op.factors[f].name == factor) return ranges[f].length();
  }
  return 1;
}

/// The box of a use, also of one whose piece is not present in this pass.
inline Box box_of(const ShardCall& call, std::size_t use) {
  return pipesim::box_of(call.op.uses[use], call.op, call.ranges);
}

/// Elements of a box's dims [first, last).
inline std::int64_t volume(const Box& box, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t i = first; i < last; ++i) n *= box[i].length();
  return n;
}

/// Elements of the unsplit tensor's dims [first, last).
inline std::int64_t whole_volume(const TensorUse& use, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t i = first; i < last; ++i) n *= use.dims[i].extent;
  return n;
}

inline std::span<float> floats_of(const Piece& piece) {
  return {piece.floats, static_cast<std::size_t>(piece.elements())};
}

/// The saved bytes from `offset` on as float32.
inline float* saved_floats(const ShardCall& call, std::size_t offset = 0) {
  return reinterpret_cast<float*>(call.saved.data() + offset);
}

/// Calls visit(i) for 0 ≤ i < n, in this order.
template <class Visit>
void for_each_term(std::int64_t n, SumOrder order, Visit visit) {
  if (order == SumOrder::Ascending) {
    for (std::int64_t i = 0; i < n; ++i) visit(i);
  } else {
    for (std::int64_t i = 0; i < n; ++i) visit(term_at(order, i, n));
  }
}

}  // namespace pipesim::cpu

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/box.h"
#include "models/operator.h"
#include "models/zigzag.h"

namespace pipesim {

// What kernels of all backends read from an operator and from a shard's boxes.

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

/// The order in which the positions of attention or a rotary embedding come.
inline ZigzagOrder zigzag_of(const Operator& op) {
  return {op.zigzag, op.factors[static_cast<std::size_t>(op.factor("s"))].size};
}

}  // namespace pipesim
